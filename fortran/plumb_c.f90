! plumb.h as Fortran sees it: what the module plumb is made of. Its names are C's; read them there.
module plumb_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int32_t), parameter :: device_memory = 0

  type, bind(c) :: device_info_c
    type(c_ptr) :: id, name, instruction_set, why
    integer(c_int32_t) :: units, compute_major, compute_minor, driver_version
    integer(c_size_t) :: memory_bytes
  end type

  type, bind(c) :: geometry_c  ! plumb_conv_geometry_nd
    integer(c_size_t) :: struct_size
    integer(c_int64_t) :: stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w
    integer(c_int64_t) :: padding_front, padding_top, padding_left
    integer(c_int64_t) :: padding_back, padding_bottom, padding_right, groups
    integer(c_int32_t) :: boundary_d, boundary_h, boundary_w, pool
  end type

  type, bind(c) :: problem_c  ! plumb_conv_problem_nd
    integer(c_size_t) :: struct_size
    integer(c_int64_t) :: n, c, d, h, w, k, t, r, s
    type(c_ptr) :: geometry, x_strides, w_strides, y_strides
    integer(c_int32_t) :: dtype, direction
  end type

  type, bind(c) :: options_c  ! plumb_conv_options_nd
    integer(c_size_t) :: struct_size
    integer(c_int32_t) :: math, activation, bias, deterministic
    integer(c_size_t) :: workspace_limit_bytes
    type(c_ptr) :: algorithm
    integer(c_int32_t) :: accumulate, relu_mask, reproducible
  end type

  type, bind(c) :: tensor_c
    type(c_ptr) :: data, device
    integer(c_int32_t) :: dtype, rank
    integer(c_int64_t) :: extents(6), strides(6)
  end type

  type, bind(c) :: candidate_c
    type(c_ptr) :: algorithm, reason, sentence, remedy
    real(c_double) :: estimate_seconds, measured_seconds
    integer(c_size_t) :: workspace_bytes
    integer(c_int32_t) :: error_class, deterministic, pool_fused, chosen
  end type

  interface
    function plumb_status_name_c(status) result(name) bind(c, name='plumb_status_name')
      import
      integer(c_int32_t), value :: status
      type(c_ptr) :: name
    end function
    function plumb_last_message_c() result(message) bind(c, name='plumb_last_message')
      import
      type(c_ptr) :: message
    end function
    function plumb_version_c() result(version) bind(c, name='plumb_version')
      import
      type(c_ptr) :: version
    end function

    function plumb_device_count_c(backend, count) result(status) bind(c, name='plumb_device_count')
      import
      character(kind=c_char), intent(in) :: backend(*)
      integer(c_int32_t), intent(out) :: count
      integer(c_int32_t) :: status
    end function
    function plumb_device_open_c(spec, options, providers, device) result(status) &
        bind(c, name='plumb_device_open_providers')
      import
      character(kind=c_char), intent(in) :: spec(*), providers(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: device
      integer(c_int32_t) :: status
    end function
    function plumb_device_copy_c(device, copy) result(status) bind(c, name='plumb_device_copy')
      import
      type(c_ptr), value :: device
      type(c_ptr), intent(out) :: copy
      integer(c_int32_t) :: status
    end function
    subroutine plumb_device_close_c(device) bind(c, name='plumb_device_close')
      import
      type(c_ptr), value :: device
    end subroutine
    function plumb_device_get_info_c(device, info) result(status) &
        bind(c, name='plumb_device_get_info')
      import
      type(c_ptr), value :: device
      type(device_info_c), intent(out) :: info
      integer(c_int32_t) :: status
    end function

    function plumb_allocate_c(device, bytes, memory, data) result(status) &
        bind(c, name='plumb_allocate')
      import
      type(c_ptr), value :: device
      integer(c_size_t), value :: bytes
      integer(c_int32_t), value :: memory
      type(c_ptr), intent(out) :: data
      integer(c_int32_t) :: status
    end function
    function plumb_deallocate_c(device, data, bytes, memory) result(status) &
        bind(c, name='plumb_deallocate')
      import
      type(c_ptr), value :: device, data
      integer(c_size_t), value :: bytes
      integer(c_int32_t), value :: memory
      integer(c_int32_t) :: status
    end function

    function plumb_queue_create_c(device, queue) result(status) bind(c, name='plumb_queue_create')
      import
      type(c_ptr), value :: device
      type(c_ptr), intent(out) :: queue
      integer(c_int32_t) :: status
    end function
    function plumb_queue_wrap_c(device, native, queue) result(status) &
        bind(c, name='plumb_queue_wrap')
      import
      type(c_ptr), value :: device, native
      type(c_ptr), intent(out) :: queue
      integer(c_int32_t) :: status
    end function
    subroutine plumb_queue_destroy_c(queue) bind(c, name='plumb_queue_destroy')
      import
      type(c_ptr), value :: queue
    end subroutine
    function plumb_queue_synchronize_c(queue) result(status) &
        bind(c, name='plumb_queue_synchronize')
      import
      type(c_ptr), value :: queue
      integer(c_int32_t) :: status
    end function
    function plumb_copy_c(queue, to, from, bytes) result(status) bind(c, name='plumb_copy')
      import
      type(c_ptr), value :: queue, to, from
      integer(c_size_t), value :: bytes
      integer(c_int32_t) :: status
    end function

    function plumb_conv_geometry_init_c(geometry) result(status) &
        bind(c, name='plumb_conv_geometry_nd_init')
      import
      type(geometry_c), intent(out) :: geometry
      integer(c_int32_t) :: status
    end function
    function plumb_conv_problem_init_c(problem) result(status) &
        bind(c, name='plumb_conv_problem_nd_init')
      import
      type(problem_c), intent(out) :: problem
      integer(c_int32_t) :: status
    end function
    function plumb_conv_options_init_c(options) result(status) &
        bind(c, name='plumb_conv_options_nd_init')
      import
      type(options_c), intent(out) :: options
      integer(c_int32_t) :: status
    end function
    function plumb_conv_output_extents_c(problem, extents) result(status) &
        bind(c, name='plumb_conv_output_extents_nd')
      import
      type(problem_c), intent(in) :: problem
      integer(c_int64_t), intent(out) :: extents(5)
      integer(c_int32_t) :: status
    end function
    function plumb_conv_c(queue, x, w, bias, y, geometry, options) result(status) &
        bind(c, name='plumb_conv_nd')
      import
      type(c_ptr), value :: queue
      type(tensor_c), intent(in) :: x, w, y
      type(c_ptr), value :: bias
      type(geometry_c), intent(in) :: geometry
      type(options_c), intent(in) :: options
      integer(c_int32_t) :: status
    end function

    function plumb_plan_create_c(device, problem, options, plan) result(status) &
        bind(c, name='plumb_plan_create_nd')
      import
      type(c_ptr), value :: device
      type(problem_c), intent(in) :: problem
      type(options_c), intent(in) :: options
      type(c_ptr), intent(out) :: plan
      integer(c_int32_t) :: status
    end function
    subroutine plumb_plan_destroy_c(plan) bind(c, name='plumb_plan_destroy')
      import
      type(c_ptr), value :: plan
    end subroutine
    function plumb_plan_algorithm_c(plan, algorithm) result(status) &
        bind(c, name='plumb_plan_algorithm')
      import
      type(c_ptr), value :: plan
      type(c_ptr), intent(out) :: algorithm
      integer(c_int32_t) :: status
    end function
    function plumb_plan_workspace_bytes_c(plan, bytes) result(status) &
        bind(c, name='plumb_plan_workspace_bytes')
      import
      type(c_ptr), value :: plan
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function plumb_plan_execute_c(plan, queue, x, w, bias, y, workspace) result(status) &
        bind(c, name='plumb_plan_execute')
      import
      type(c_ptr), value :: plan, queue, x, w, bias, y, workspace
      integer(c_int32_t) :: status
    end function

    function plumb_plan_explain_c(plan, explanation) result(status) &
        bind(c, name='plumb_plan_explain')
      import
      type(c_ptr), value :: plan
      type(c_ptr), intent(out) :: explanation
      integer(c_int32_t) :: status
    end function
    function plumb_explanation_size_c(explanation, size) result(status) &
        bind(c, name='plumb_explanation_size')
      import
      type(c_ptr), value :: explanation
      integer(c_size_t), intent(out) :: size
      integer(c_int32_t) :: status
    end function
    function plumb_explanation_entry_c(explanation, index, candidate) result(status) &
        bind(c, name='plumb_explanation_entry')
      import
      type(c_ptr), value :: explanation
      integer(c_size_t), value :: index
      type(candidate_c), intent(out) :: candidate
      integer(c_int32_t) :: status
    end function
    function plumb_explanation_stages_c(explanation, index, copies_input, accumulate_fused) &
        result(status) bind(c, name='plumb_explanation_stages')
      import
      type(c_ptr), value :: explanation
      integer(c_size_t), value :: index
      integer(c_int32_t), intent(out) :: copies_input, accumulate_fused
      integer(c_int32_t) :: status
    end function
    function plumb_explanation_promises_c(explanation, index, reproducible, invariant) &
        result(status) bind(c, name='plumb_explanation_promises')
      import
      type(c_ptr), value :: explanation
      integer(c_size_t), value :: index
      integer(c_int32_t), intent(out) :: reproducible, invariant
      integer(c_int32_t) :: status
    end function
    subroutine plumb_explanation_destroy_c(explanation) bind(c, name='plumb_explanation_destroy')
      import
      type(c_ptr), value :: explanation
    end subroutine

    function plumb_plan_packed_workspace_bytes_c(plan, bytes) result(status) &
        bind(c, name='plumb_plan_packed_workspace_bytes')
      import
      type(c_ptr), value :: plan
      integer(c_size_t), intent(out) :: bytes
      integer(c_int32_t) :: status
    end function
    function plumb_plan_pack_c(plan, queue, w, filters) result(status) &
        bind(c, name='plumb_plan_pack')
      import
      type(c_ptr), value :: plan, queue, w
      type(c_ptr), intent(out) :: filters
      integer(c_int32_t) :: status
    end function
    function plumb_plan_execute_packed_c(plan, queue, x, filters, bias, y, workspace) &
        result(status) bind(c, name='plumb_plan_execute_packed')
      import
      type(c_ptr), value :: plan, queue, x, filters, bias, y, workspace
      integer(c_int32_t) :: status
    end function
    subroutine plumb_packed_filters_destroy_c(filters) bind(c, name='plumb_packed_filters_destroy')
      import
      type(c_ptr), value :: filters
    end subroutine

    function plumb_tensor_init_c(tensor, data, device, dtype, rank, extents, strides) &
        result(status) bind(c, name='plumb_tensor_init')
      import
      type(tensor_c), intent(out) :: tensor
      type(c_ptr), value :: data, device
      integer(c_int32_t), value :: dtype, rank
      integer(c_int64_t), intent(in) :: extents(*)
      type(c_ptr), value :: strides
      integer(c_int32_t) :: status
    end function
    function plumb_conv_host_c(device, x, w, bias, y, geometry, options) result(status) &
        bind(c, name='plumb_conv_host_nd')
      import
      type(c_ptr), value :: device
      type(tensor_c), intent(in) :: x, w, y
      type(c_ptr), value :: bias
      type(geometry_c), intent(in) :: geometry
      type(options_c), intent(in) :: options
      integer(c_int32_t) :: status
    end function
    function plumb_backward_data_host_c(device, dy, w, dx, mask, bias, geometry, options) &
        result(status) bind(c, name='plumb_conv_backward_data_host')
      import
      type(c_ptr), value :: device
      type(tensor_c), intent(in) :: dy, w, dx
      type(c_ptr), value :: mask, bias
      type(geometry_c), intent(in) :: geometry
      type(options_c), intent(in) :: options
      integer(c_int32_t) :: status
    end function
    function plumb_backward_weights_host_c(device, x, dy, dw, db, mask, geometry, options) &
        result(status) bind(c, name='plumb_conv_backward_weights_host')
      import
      type(c_ptr), value :: device
      type(tensor_c), intent(in) :: x, dy, dw
      type(c_ptr), value :: db, mask
      type(geometry_c), intent(in) :: geometry
      type(options_c), intent(in) :: options
      integer(c_int32_t) :: status
    end function
    function plumb_transpose_host_c(device, x, w, bias, y, geometry, options) &
        result(status) bind(c, name='plumb_conv_transpose_host')
      import
      type(c_ptr), value :: device
      type(tensor_c), intent(in) :: x, w, y
      type(c_ptr), value :: bias
      type(geometry_c), intent(in) :: geometry
      type(options_c), intent(in) :: options
      integer(c_int32_t) :: status
    end function
  end interface

contains

  !> A C text as a Fortran one.
  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: length
    interface
      function strlen(s) result(length) bind(c, name='strlen')
        import
        type(c_ptr), value :: s
        integer(c_size_t) :: length
      end function
    end interface
    if (.not. c_associated(from)) then
      text = ''
      return
    end if
    length = int(strlen(from))
    call c_f_pointer(from, letters, [length])
    allocate (character(length) :: text)
    if (length > 0) text = transfer(letters, text)
  end function

  !> A shape as messages show it: (w, h, c, n).
  pure function text(numbers)
    integer(c_int64_t), intent(in) :: numbers(:)
    character(:), allocatable :: text
    character(20) :: number
    integer :: i
    text = '('
    do i = 1, size(numbers)
      write (number, '(i0)') numbers(i)
      text = text//trim(number)
      if (i < size(numbers)) text = text//', '
    end do
    text = text//')'
  end function

  !> A sentence of C's as Fortran has it: shapes and strides, which C writes as [n, c, h, w], turned
  !> around, (w, h, c, n). Brackets around anything but integers stay as they are.
  function in_fortran_order(from) result(text)
    character(*), intent(in) :: from
    character(:), allocatable :: text
    integer :: open, close, at
    text = ''
    at = 1
    do
      open = index(from(at:), '[')
      if (open == 0) exit
      open = at + open - 1
      close = scan(from(open + 1:), '[]')
      if (close == 0) exit
      close = open + close
      text = text//from(at:open - 1)
      if (from(close:close) == ']' .and. close > open + 1 .and. &
        verify(from(open + 1:close - 1), '0123456789-, ') == 0) then
        text = text//'('//reversed(from(open + 1:close - 1))//')'
        at = close + 1
      else
        text = text//from(open:close - 1)
        at = close
      end if
    end do
    text = text//from(at:)
  end function

  !> What stands between commas, the last first.
  function reversed(list) result(text)
    character(*), intent(in) :: list
    character(:), allocatable :: text
    integer :: comma, rest
    text = ''
    rest = len(list)
    do
      comma = index(list(:rest), ', ', back=.true.)
      if (comma == 0) exit
      text = text//list(comma + 2:rest)//', '
      rest = comma - 1
    end do
    text = text//list(:rest)
  end function

  !> What every procedure ends with: the code of the C function, or an own message beside one.
  subroutine conclude(code, status, message, own)
    integer(c_int32_t), intent(in) :: code
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    character(*), intent(in), optional :: own
    integer(c_int32_t), parameter :: plumb_ok = 0
    character(:), allocatable :: text
    text = ''
    if (code /= plumb_ok) text = in_fortran_order(text_of(plumb_last_message_c()))
    if (present(own)) text = own
    if (present(message) .and. code /= plumb_ok) message = text
    if (present(status)) then
      status = code
    else if (code /= plumb_ok) then
      error stop 'plumb: '//text
    end if
  end subroutine

end module plumb_c
