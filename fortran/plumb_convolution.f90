! Convolution from Fortran: shapes checked and turned into what C calls a problem.
submodule (plumb) plumb_convolution
  implicit none
  integer(c_int32_t), parameter :: wrong = int(plumb_invalid_argument, c_int32_t)
  character(*), parameter :: shapes = 'x(w, h, c, n), w(s, r, c/groups, k), y(q, p, k, n)'

contains

  !> A shape of up to four extents, with ones for those left out; zeros where there are more.
  pure function four(extents) result(filled)
    integer(int64), intent(in) :: extents(:)
    integer(int64) :: filled(4)
    filled = 0
    if (size(extents) > 4) return
    filled = 1
    filled(:size(extents)) = extents
  end function

  !> What was given for `name`, a number or an array of them, as `directions` numbers: one stands for
  !> all, and two for both sides where there are four. `own` says what is wrong, or is left alone.
  subroutine spread_out(given, name, directions, numbers, own)
    integer, intent(in) :: given(..)
    character(*), intent(in) :: name
    integer, intent(in) :: directions
    integer(int64), intent(out) :: numbers(directions)
    character(:), allocatable, intent(inout) :: own
    integer :: i, count
    numbers = 0
    count = size(given)
    select rank (given)
    rank (0)
      numbers = given
    rank (1)
      if (count == 1 .or. count == 2 .or. count == directions) then
        numbers = [(int(given(mod(i, count) + 1), int64), i=0, directions - 1)]
      else
        count = 0
      end if
    rank default
      count = 0
    end select
    if (count > 0) return
    own = name//' has '//text([int(size(given), int64)])//' numbers; expected 1 (everywhere)'// &
      merge(', 2 (width, height) or 4 (left, top, right, bottom)', &
      ' or 2 (width, height)                              ', directions == 4)
    own = trim(own)
  end subroutine

  !> The geometry; `own` says what is wrong with it, or is not allocated.
  subroutine set_geometry(geometry, own, stride, dilation, padding, groups)
    type(geometry_c), intent(out) :: geometry
    character(:), allocatable, intent(out) :: own
    integer, intent(in), optional :: stride(..), dilation(..), padding(..), groups
    integer(int64) :: pair(2), sides(4)
    integer(c_int32_t) :: code
    code = plumb_conv_geometry_init_c(geometry)
    if (present(stride)) then
      call spread_out(stride, 'stride', 2, pair, own)
      geometry%stride_w = pair(1)
      geometry%stride_h = pair(2)
    end if
    if (present(dilation)) then
      call spread_out(dilation, 'dilation', 2, pair, own)
      geometry%dilation_w = pair(1)
      geometry%dilation_h = pair(2)
    end if
    if (present(padding)) then
      call spread_out(padding, 'padding', 4, sides, own)
      geometry%padding_left = sides(1)
      geometry%padding_top = sides(2)
      geometry%padding_right = sides(3)
      geometry%padding_bottom = sides(4)
    end if
    if (present(groups)) geometry%groups = groups
  end subroutine

  !> Says in `own` what is wrong between the channels of x and w, and which number of groups would fit,
  !> or leaves it alone.
  subroutine check_channels(x, w, groups, own)
    integer(int64), intent(in) :: x(4), w(4), groups
    character(:), allocatable, intent(inout) :: own
    character(20) :: number
    if (w(3) * groups == x(3)) return
    own = 'x is '//text(x)//' and w is '//text(w)//'; expected '//shapes
    if (w(3) < 1 .or. x(3) < 1) return
    if (mod(x(3), w(3)) /= 0) return
    if (mod(w(4), x(3) / w(3)) /= 0) return
    write (number, '(i0)') x(3) / w(3)
    own = own//'; groups='//trim(number)//' would fit'
  end subroutine

  subroutine release(self)
    class(plumb_plan), intent(inout) :: self
    call plumb_plan_destroy_c(self%handle)
    self%handle = c_null_ptr
  end subroutine

  module procedure plan_create
    type(problem_c) :: problem
    type(options_c) :: options
    character(:), allocatable :: own
    character(kind=c_char), allocatable, target :: name(:)
    integer(c_int64_t) :: outputs(4)
    integer(c_int32_t) :: code
    call release(self)
    code = plumb_conv_problem_init_c(problem)
    call set_geometry(problem%geometry, own, stride, dilation, padding, groups)
    self%x_extents = four(int(x_shape, int64))
    self%w_extents = four(int(w_shape, int64))
    if (.not. allocated(own)) &
      call check_channels(self%x_extents, self%w_extents, problem%geometry%groups, own)
    if (allocated(own)) then
      call conclude(wrong, status, message, 'plan: '//own)
      return
    end if
    problem%w = self%x_extents(1)
    problem%h = self%x_extents(2)
    problem%c = self%x_extents(3)
    problem%n = self%x_extents(4)
    problem%s = self%w_extents(1)
    problem%r = self%w_extents(2)
    problem%k = self%w_extents(4)
    if (present(dtype)) problem%dtype = int(dtype, c_int32_t)
    self%dtype = problem%dtype

    code = plumb_conv_options_init_c(options)
    if (present(math)) options%math = int(math, c_int32_t)
    if (present(activation)) options%activation = int(activation, c_int32_t)
    self%with_bias = .false.
    if (present(bias)) self%with_bias = bias
    options%bias = merge(1_c_int32_t, 0_c_int32_t, self%with_bias)
    if (present(deterministic)) &
      options%deterministic = merge(1_c_int32_t, 0_c_int32_t, deterministic)
    if (present(workspace_limit_bytes)) &
      options%workspace_limit_bytes = int(workspace_limit_bytes, c_size_t)
    if (present(algorithm)) then
      allocate (name(len_trim(algorithm) + 1))
      name = transfer(trim(algorithm)//c_null_char, name)
      options%algorithm = c_loc(name)
    end if

    code = plumb_conv_output_extents_c(problem, outputs)
    if (code == plumb_ok) code = plumb_plan_create_c(device%handle, problem, options, self%handle)
    if (code == plumb_ok) then
      self%y_extents = outputs(4:1:-1)
      self%on_host = device%id() == 'cpu'
    end if
    call conclude(code, status, message)
  end procedure

  module procedure plan_algorithm
    type(c_ptr) :: from
    integer(c_int32_t) :: code
    code = plumb_plan_algorithm_c(self%handle, from)
    name = text_of(from)
  end procedure

  module procedure plan_workspace_bytes
    integer(c_size_t) :: from
    integer(c_int32_t) :: code
    code = plumb_plan_workspace_bytes_c(self%handle, from)
    bytes = int(from, int64)
  end procedure

  module procedure plan_packed_workspace_bytes
    integer(c_size_t) :: from
    integer(c_int32_t) :: code
    code = plumb_plan_packed_workspace_bytes_c(self%handle, from)
    bytes = int(from, int64)
  end procedure

  module procedure plan_y_shape
    extents = int(self%y_extents)
  end procedure

  module procedure plan_explain
    type(c_ptr) :: explanation
    type(candidate_c) :: from
    integer(c_size_t) :: entries
    integer(c_int32_t) :: code
    integer :: i
    entries = 0
    code = plumb_plan_explain_c(self%handle, explanation)
    if (code == plumb_ok) code = plumb_explanation_size_c(explanation, entries)
    if (allocated(candidates)) deallocate (candidates)
    allocate (candidates(entries))
    do i = 1, size(candidates)
      code = plumb_explanation_entry_c(explanation, int(i - 1, c_size_t), from)
      candidates(i)%algorithm = text_of(from%algorithm)
      candidates(i)%reason = text_of(from%reason)
      candidates(i)%sentence = in_fortran_order(text_of(from%sentence))
      candidates(i)%remedy = text_of(from%remedy)
      candidates(i)%estimate_seconds = from%estimate_seconds
      candidates(i)%measured_seconds = from%measured_seconds
      candidates(i)%workspace_bytes = int(from%workspace_bytes, int64)
      candidates(i)%error_class = from%error_class
      candidates(i)%deterministic = from%deterministic /= 0
      candidates(i)%chosen = from%chosen /= 0
    end do
    call plumb_explanation_destroy_c(explanation)
    call conclude(code, status, message)
  end procedure

  module procedure execute_pointers
    type(c_ptr) :: b, scratch
    b = c_null_ptr
    if (present(bias)) b = bias
    scratch = c_null_ptr
    if (present(workspace)) scratch = workspace
    call conclude(plumb_plan_execute_c(self%handle, queue%handle, x, w, b, y, scratch), status, &
      message)
  end procedure

  !> What does not fit between a plan and its tensors, or nothing.
  function misfit(self, dtype, x, w, y, bias) result(own)
    class(plumb_plan), intent(in) :: self
    integer, intent(in) :: dtype
    integer(int64), intent(in) :: x(:), w(:), y(:)
    integer(int64), intent(in), optional :: bias(:)
    character(:), allocatable :: own
    own = ''
    if (.not. c_associated(self%handle)) then
      own = 'the plan has not been created'
    else if (dtype /= self%dtype) then
      own = 'the arrays are of another kind than the plan'
    else if (any(four(x) /= self%x_extents)) then
      own = 'x is '//text(x)//'; the plan is for '//text(self%x_extents)
    else if (any(four(w) /= self%w_extents)) then
      own = 'w is '//text(w)//'; the plan is for '//text(self%w_extents)
    else if (any(four(y) /= self%y_extents)) then
      own = 'y is '//text(y)//'; expected '//text(self%y_extents)
    else if (present(bias) .neqv. self%with_bias) then
      own = 'the plan was made without a bias, or with one that is missing'
    else if (present(bias)) then
      if (any(four(bias) /= [self%w_extents(4), 1_int64, 1_int64, 1_int64])) &
        own = 'bias is '//text(bias)//'; expected '//text(self%w_extents(4:4))
    end if
  end function

  module procedure pack_pointer
    call plumb_packed_filters_destroy_c(filters%handle)
    filters%handle = c_null_ptr
    call conclude(plumb_plan_pack_c(self%handle, queue%handle, w, filters%handle), status, message)
  end procedure

  module procedure pack_array
    character(:), allocatable :: own
    own = ''
    if (.not. allocated(w%extents)) then
      own = 'w has not been created'
    else if (.not. c_associated(self%handle)) then
      own = 'the plan has not been created'
    else if (w%dtype /= self%dtype) then
      own = 'w is of another kind than the plan'
    else if (any(four(w%extents) /= self%w_extents)) then
      own = 'w is '//text(w%extents)//'; the plan is for '//text(self%w_extents)
    end if
    if (own /= '') then
      call conclude(wrong, status, message, 'pack: '//own)
    else
      call pack_pointer(self, queue, w%memory, filters, status, message)
    end if
  end procedure

  module procedure execute_packed_pointers
    type(c_ptr) :: b, scratch
    b = c_null_ptr
    if (present(bias)) b = bias
    scratch = c_null_ptr
    if (present(workspace)) scratch = workspace
    call conclude(plumb_plan_execute_packed_c(self%handle, queue%handle, x, filters%handle, b, y, &
      scratch), status, message)
  end procedure

  !> What is wrong with the arrays of a plan, or nothing, and where the bias lies.
  subroutine check_arrays(self, x, w_dtype, w_extents, y, bias, b, own)
    class(plumb_plan), intent(in) :: self
    type(plumb_array), intent(in) :: x, y
    integer, intent(in) :: w_dtype
    integer(int64), intent(in) :: w_extents(:)
    type(plumb_array), intent(in), optional :: bias
    type(c_ptr), intent(out) :: b
    character(:), allocatable, intent(out) :: own
    b = c_null_ptr
    if (.not. (allocated(x%extents) .and. allocated(y%extents))) then
      own = 'x or y has not been created'
    else if (x%dtype /= y%dtype .or. w_dtype /= y%dtype) then
      own = 'x, w and y are of different kinds'
    else if (.not. present(bias)) then
      own = misfit(self, y%dtype, x%extents, w_extents, y%extents)
    else if (.not. allocated(bias%extents)) then
      own = 'bias has not been created'
    else if (bias%dtype /= y%dtype) then
      own = 'bias is of another kind than y'
    else
      own = misfit(self, y%dtype, x%extents, w_extents, y%extents, bias%extents)
      b = bias%memory
    end if
  end subroutine

  module procedure execute_arrays
    type(c_ptr) :: b
    character(:), allocatable :: own
    if (allocated(w%extents)) then
      call check_arrays(self, x, w%dtype, w%extents, y, bias, b, own)
    else
      own = 'w has not been created'
    end if
    if (own /= '') then
      call conclude(wrong, status, message, 'execute: '//own)
    else
      call execute_pointers(self, queue, x%memory, w%memory, y%memory, b, workspace, status, message)
    end if
  end procedure

  module procedure execute_packed_arrays
    type(c_ptr) :: b
    character(:), allocatable :: own
    call check_arrays(self, x, self%dtype, self%w_extents, y, bias, b, own)
    if (own /= '') then
      call conclude(wrong, status, message, 'execute: '//own)
    else
      call execute_packed_pointers(self, queue, x%memory, filters, y%memory, b, workspace, status, &
        message)
    end if
  end procedure

  !> Fortran's own arrays: the plan's device must be the host.
  subroutine execute_on_host(self, queue, x, w, y, b, own, status, message)
    class(plumb_plan), intent(in) :: self
    type(plumb_queue), intent(in) :: queue
    type(c_ptr), intent(in) :: x, w, y, b
    character(*), intent(in) :: own
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    if (own /= '') then
      call conclude(wrong, status, message, 'execute: '//own)
    else if (.not. self%on_host) then
      call conclude(wrong, status, message, 'execute: the arrays are on the host, and the plan is '// &
        'for another device; expected plumb_arrays (or take plumb_conv)')
    else
      call conclude(plumb_plan_execute_c(self%handle, queue%handle, x, w, b, y, c_null_ptr), &
        status, message)
    end if
  end subroutine

  module procedure execute_real32
    if (present(bias)) then
      call execute_on_host(self, queue, c_loc(x), c_loc(w), c_loc(y), c_loc(bias), &
        misfit(self, plumb_f32, int(shape(x), int64), int(shape(w), int64), int(shape(y), int64), &
        int(shape(bias), int64)), status, message)
    else
      call execute_on_host(self, queue, c_loc(x), c_loc(w), c_loc(y), c_null_ptr, &
        misfit(self, plumb_f32, int(shape(x), int64), int(shape(w), int64), int(shape(y), int64)), &
        status, message)
    end if
  end procedure

  module procedure execute_real64
    if (present(bias)) then
      call execute_on_host(self, queue, c_loc(x), c_loc(w), c_loc(y), c_loc(bias), &
        misfit(self, plumb_f64, int(shape(x), int64), int(shape(w), int64), int(shape(y), int64), &
        int(shape(bias), int64)), status, message)
    else
      call execute_on_host(self, queue, c_loc(x), c_loc(w), c_loc(y), c_null_ptr, &
        misfit(self, plumb_f64, int(shape(x), int64), int(shape(w), int64), int(shape(y), int64)), &
        status, message)
    end if
  end procedure

  !> The array as C has it: four extents, the last running fastest.
  function host_tensor(data, dtype, extents) result(tensor)
    type(c_ptr), intent(in) :: data
    integer, intent(in) :: dtype
    integer(int64), intent(in) :: extents(:)
    type(tensor_c) :: tensor
    integer(c_int32_t) :: code
    code = plumb_tensor_init_c(tensor, data, c_null_ptr, int(dtype, c_int32_t), &
      int(size(extents), c_int32_t), extents(size(extents):1:-1), c_null_ptr)
  end function

  subroutine conv_on_host(device, dtype, x, w, y, bias, x_shape, w_shape, y_shape, biases, &
      stride, dilation, padding, groups, activation, math, status, message)
    type(plumb_device), intent(in) :: device
    integer, intent(in) :: dtype
    type(c_ptr), intent(in) :: x, w, y, bias
    integer(int64), intent(in) :: x_shape(:), w_shape(:), y_shape(:), biases
    integer, intent(in), optional :: stride(..), dilation(..), padding(..)
    integer, intent(in), optional :: groups, activation, math
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    type(geometry_c) :: geometry
    type(options_c) :: options
    type(tensor_c), target :: bias_tensor
    type(c_ptr) :: bias_address
    character(:), allocatable :: own
    integer(c_int32_t) :: code
    call set_geometry(geometry, own, stride, dilation, padding, groups)
    if (max(size(x_shape), size(w_shape), size(y_shape)) > 4) &
      own = 'an array has more than four indices; expected '//shapes
    if (.not. allocated(own)) &
      call check_channels(four(x_shape), four(w_shape), geometry%groups, own)
    if (allocated(own)) then
      call conclude(wrong, status, message, 'conv: '//own)
      return
    end if
    code = plumb_conv_options_init_c(options)
    if (present(math)) options%math = int(math, c_int32_t)
    if (present(activation)) options%activation = int(activation, c_int32_t)
    bias_address = c_null_ptr
    if (c_associated(bias)) then
      bias_tensor = host_tensor(bias, dtype, [biases])
      bias_address = c_loc(bias_tensor)
    end if
    call conclude(plumb_conv_host_c(device%handle, host_tensor(x, dtype, four(x_shape)), &
      host_tensor(w, dtype, four(w_shape)), bias_address, host_tensor(y, dtype, four(y_shape)), &
      geometry, options), status, message)
  end subroutine

  module procedure conv_real32
    type(c_ptr) :: b
    integer(int64) :: biases
    b = c_null_ptr
    biases = 0
    if (present(bias)) then
      b = c_loc(bias)
      biases = size(bias)
    end if
    call conv_on_host(device, plumb_f32, c_loc(x), c_loc(w), c_loc(y), b, int(shape(x), int64), &
      int(shape(w), int64), int(shape(y), int64), biases, stride, dilation, padding, groups, &
      activation, math, status, message)
  end procedure

  module procedure conv_real64
    type(c_ptr) :: b
    integer(int64) :: biases
    b = c_null_ptr
    biases = 0
    if (present(bias)) then
      b = c_loc(bias)
      biases = size(bias)
    end if
    call conv_on_host(device, plumb_f64, c_loc(x), c_loc(w), c_loc(y), b, int(shape(x), int64), &
      int(shape(w), int64), int(shape(y), int64), biases, stride, dilation, padding, groups, &
      activation, math, status, message)
  end procedure

end submodule plumb_convolution
