! Convolution from Fortran: shapes checked and turned into what C calls a problem.
submodule (plumb) plumb_convolution
  use plumb_shapes
  implicit none
  integer(c_int32_t), parameter :: wrong = int(plumb_invalid_argument, c_int32_t)

contains

  subroutine release(self)
    class(plumb_plan), intent(inout) :: self
    call plumb_plan_destroy_c(self%handle)
    self%handle = c_null_ptr
  end subroutine

  module procedure plan_create
    type(geometry_c), target :: geometry
    type(problem_c) :: problem
    type(options_c) :: options
    character(:), allocatable :: own, unfit
    character(kind=c_char), allocatable, target :: name(:)
    integer(c_int64_t) :: outputs(5)
    integer(c_int32_t) :: code
    call release(self)
    call count_axes(self%axes, unfit, max(size(x_shape), size(w_shape)), axes)
    call set_geometry(geometry, own, self%axes, stride, dilation, padding, groups, boundary)
    self%x_extents = five(int(x_shape, int64), self%axes)
    self%w_extents = five(int(w_shape, int64), self%axes)
    if (.not. allocated(own)) &
      call check_channels(self%x_extents, self%w_extents, self%axes, geometry%groups, own)
    if (allocated(unfit)) own = unfit
    if (allocated(own)) then
      call conclude(wrong, status, message, 'plan: '//own)
      return
    end if
    code = plumb_conv_problem_init_c(problem)
    problem%geometry = c_loc(geometry)
    call set_extents(problem, self%x_extents, self%w_extents)
    if (present(dtype)) problem%dtype = int(dtype, c_int32_t)
    self%dtype = problem%dtype

    call set_options(options, activation, math, accumulate, reproducible)
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
      self%y_extents = outputs(5:1:-1)
      self%on_host = device%id() == 'cpu'
    end if
    call conclude(code, status, message)
  end procedure

  subroutine set_options(options, activation, math, accumulate, reproducible)
    type(options_c), intent(out) :: options
    integer, intent(in), optional :: activation, math
    logical, intent(in), optional :: accumulate, reproducible
    integer(c_int32_t) :: code
    code = plumb_conv_options_init_c(options)
    if (present(math)) options%math = int(math, c_int32_t)
    if (present(activation)) options%activation = int(activation, c_int32_t)
    if (present(accumulate)) options%accumulate = merge(1_c_int32_t, 0_c_int32_t, accumulate)
    if (present(reproducible)) &
      options%reproducible = merge(1_c_int32_t, 0_c_int32_t, reproducible)
  end subroutine

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
    extents = int(shape_of(self%y_extents, self%axes))
  end procedure

  module procedure plan_explain
    type(c_ptr) :: explanation
    type(candidate_c) :: from
    integer(c_size_t) :: entries
    integer(c_int32_t) :: code, copies_input, accumulate_fused, reproducible, invariant
    integer :: i
    entries = 0
    code = plumb_plan_explain_c(self%handle, explanation)
    if (code == plumb_ok) code = plumb_explanation_size_c(explanation, entries)
    if (allocated(candidates)) deallocate (candidates)
    allocate (candidates(entries))
    do i = 1, size(candidates)
      code = plumb_explanation_entry_c(explanation, int(i - 1, c_size_t), from)
      code = plumb_explanation_stages_c(explanation, int(i - 1, c_size_t), copies_input, &
        accumulate_fused)
      code = plumb_explanation_promises_c(explanation, int(i - 1, c_size_t), reproducible, invariant)
      candidates(i)%algorithm = text_of(from%algorithm)
      candidates(i)%reason = text_of(from%reason)
      candidates(i)%sentence = in_fortran_order(text_of(from%sentence))
      candidates(i)%remedy = text_of(from%remedy)
      candidates(i)%estimate_seconds = from%estimate_seconds
      candidates(i)%measured_seconds = from%measured_seconds
      candidates(i)%workspace_bytes = int(from%workspace_bytes, int64)
      candidates(i)%error_class = from%error_class
      candidates(i)%deterministic = from%deterministic /= 0
      candidates(i)%reproducible = reproducible /= 0
      candidates(i)%invariant = invariant /= 0
      candidates(i)%pool_fused = from%pool_fused /= 0
      candidates(i)%copies_input = copies_input /= 0
      candidates(i)%accumulate_fused = accumulate_fused /= 0
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
    else if (any(five(x, self%axes) /= self%x_extents)) then
      own = 'x is '//text(x)//'; the plan is for '//text(shape_of(self%x_extents, self%axes))
    else if (any(five(w, self%axes) /= self%w_extents)) then
      own = 'w is '//text(w)//'; the plan is for '//text(shape_of(self%w_extents, self%axes))
    else if (any(five(y, self%axes) /= self%y_extents)) then
      own = 'y is '//text(y)//'; expected '//text(shape_of(self%y_extents, self%axes))
    else if (present(bias) .neqv. self%with_bias) then
      own = 'the plan was made without a bias, or with one that is missing'
    else if (present(bias)) then
      if (bias(1) /= self%w_extents(5) .or. any(bias(2:) /= 1)) &
        own = 'bias is '//text(bias)//'; expected '//text(self%w_extents(5:5))
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
    else if (any(five(w%extents, self%axes) /= self%w_extents)) then
      own = 'w is '//text(w%extents)//'; the plan is for '// &
        text(shape_of(self%w_extents, self%axes))
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
    call check_arrays(self, x, self%dtype, shape_of(self%w_extents, self%axes), y, bias, b, own)
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

  !> The array as C has it, the last index running fastest.
  function host_tensor(data, dtype, extents) result(tensor)
    type(c_ptr), intent(in) :: data
    integer, intent(in) :: dtype
    integer(int64), intent(in) :: extents(:)
    type(tensor_c) :: tensor
    integer(c_int32_t) :: code
    code = plumb_tensor_init_c(tensor, data, c_null_ptr, int(dtype, c_int32_t), &
      int(size(extents), c_int32_t), extents(size(extents):1:-1), c_null_ptr)
  end function

  !> The axes of x, w and y of three indices each, or of one. Three indices are channels of two axes
  !> where that fits; as a depth, without padding, they would be the same sum. One index is a row of
  !> two axes where an argument says so, `numbers`.
  pure integer function axes_of_fields(x, w, y, groups, numbers) result(axes)
    integer(int64), intent(in) :: x(:), w(:), y(:)
    integer, intent(in) :: groups, numbers
    axes = 2
    if (size(x) /= size(w) .or. size(x) /= size(y)) return
    if (size(x) == 1 .and. numbers <= 1) axes = 1
    if (size(x) /= 3) return
    if (x(3) /= w(3) * groups .or. y(3) /= 1) axes = 3
  end function

  subroutine conv_on_host(device, dtype, x, w, y, bias, x_shape, w_shape, y_shape, biases, &
      stride, dilation, padding, groups, activation, math, status, message, boundary, accumulate, &
      axes, reproducible)
    type(plumb_device), intent(in) :: device
    integer, intent(in) :: dtype
    type(c_ptr), intent(in) :: x, w, y, bias
    integer(int64), intent(in) :: x_shape(:), w_shape(:), y_shape(:), biases
    integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..)
    integer, intent(in), optional :: groups, activation, math, axes
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    logical, intent(in), optional :: accumulate, reproducible
    type(geometry_c) :: geometry
    type(options_c) :: options
    type(tensor_c), target :: bias_tensor
    type(c_ptr) :: bias_address
    character(:), allocatable :: own, unfit
    integer :: seen, numbers, of_groups
    numbers = 0
    if (present(stride)) numbers = max(numbers, size(stride))
    if (present(dilation)) numbers = max(numbers, size(dilation))
    if (present(padding)) numbers = max(numbers, size(padding))
    of_groups = 1
    if (present(groups)) of_groups = groups
    call count_axes(seen, unfit, max(size(x_shape), size(w_shape), size(y_shape)), axes)
    if (.not. present(axes) .and. seen == 2) &
      seen = axes_of_fields(x_shape, w_shape, y_shape, of_groups, numbers)
    call set_geometry(geometry, own, seen, stride, dilation, padding, groups, boundary)
    if (.not. allocated(own)) &
      call check_channels(five(x_shape, seen), five(w_shape, seen), seen, geometry%groups, own)
    if (allocated(unfit)) own = unfit
    if (allocated(own)) then
      call conclude(wrong, status, message, 'conv: '//own)
      return
    end if
    call set_options(options, activation, math, accumulate, reproducible)
    bias_address = c_null_ptr
    if (c_associated(bias)) then
      bias_tensor = host_tensor(bias, dtype, [biases])
      bias_address = c_loc(bias_tensor)
    end if
    call conclude(plumb_conv_host_c(device%handle, host_tensor(x, dtype, &
      shape_of(five(x_shape, seen), seen)), host_tensor(w, dtype, &
      shape_of(five(w_shape, seen), seen)), bias_address, host_tensor(y, dtype, &
      shape_of(five(y_shape, seen), seen)), geometry, options), status, message)
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
      activation, math, status, message, boundary, accumulate, axes, reproducible)
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
      activation, math, status, message, boundary, accumulate, axes, reproducible)
  end procedure

end submodule plumb_convolution
