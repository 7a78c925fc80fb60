! Gradients and transposed convolution of Fortran's own arrays, on any device.
submodule (plumb:plumb_convolution) plumb_gradients
  implicit none

  !> One gradient without its data: the shapes of x, w and y, or of dx, dw and dy in their places, and what
  !> the other arguments make.
  type :: settled
    integer :: axes = 2
    type(geometry_c) :: geometry
    type(options_c) :: options
    character(:), allocatable :: own  !< what is wrong, or not allocated
  end type

contains

  function settle(x_shape, w_shape, y_shape, stride, dilation, padding, groups, boundary, math, &
      accumulate, axes, activation, deterministic, reproducible) result(all)
    integer, intent(in) :: x_shape(:), w_shape(:), y_shape(:)
    integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..)
    integer, intent(in), optional :: groups, math, axes, activation
    logical, intent(in), optional :: accumulate, deterministic, reproducible
    type(settled) :: all
    character(:), allocatable :: unfit
    integer :: numbers, of_groups
    numbers = 0
    if (present(stride)) numbers = max(numbers, size(stride))
    if (present(dilation)) numbers = max(numbers, size(dilation))
    if (present(padding)) numbers = max(numbers, size(padding))
    of_groups = 1
    if (present(groups)) of_groups = groups
    call count_axes(all%axes, unfit, max(size(x_shape), size(w_shape), size(y_shape)), axes)
    if (.not. present(axes) .and. all%axes == 2) &
      all%axes = axes_of_fields(int(x_shape, int64), int(w_shape, int64), int(y_shape, int64), &
      of_groups, numbers)
    call set_geometry(all%geometry, all%own, all%axes, stride, dilation, padding, groups, boundary)
    if (.not. allocated(all%own)) &
      call check_channels(five(int(x_shape, int64), all%axes), five(int(w_shape, int64), all%axes), &
      all%axes, all%geometry%groups, all%own)
    if (allocated(unfit)) all%own = unfit
    call set_options(all%options, activation, math, accumulate, reproducible)
    if (present(deterministic)) &
      all%options%deterministic = merge(1_c_int32_t, 0_c_int32_t, deterministic)
  end function

  !> An array with all the indices that the axes give it.
  function tensor(all, data, dtype, extents) result(made)
    type(settled), intent(in) :: all
    type(c_ptr), intent(in) :: data
    integer, intent(in) :: dtype, extents(:)
    type(tensor_c) :: made
    made = host_tensor(data, dtype, shape_of(five(int(extents, int64), all%axes), all%axes))
  end function

  !> What ends every procedure: the message of what is wrong here, or the code of the call in C.
  subroutine finish(all, name, code, status, message)
    type(settled), intent(in) :: all
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in) :: code
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    if (allocated(all%own)) then
      call conclude(wrong, status, message, name//': '//all%own)
    else
      call conclude(code, status, message)
    end if
  end subroutine

  module procedure backward_data_real32
    type(settled) :: all
    type(tensor_c), target :: mask_tensor, bias_tensor
    type(c_ptr) :: mask_at, bias_at
    integer(c_int32_t) :: code
    all = settle(shape(dx), shape(w), shape(dy), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, activation, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      mask_at = c_null_ptr
      if (present(mask)) then
        mask_tensor = tensor(all, c_loc(mask), plumb_f32, shape(mask))
        mask_at = c_loc(mask_tensor)
      end if
      bias_at = c_null_ptr
      if (present(bias)) then
        bias_tensor = host_tensor(c_loc(bias), plumb_f32, shape(bias, int64))
        bias_at = c_loc(bias_tensor)
      end if
      code = plumb_backward_data_host_c(device%handle, tensor(all, c_loc(dy), plumb_f32, shape(dy)), &
        tensor(all, c_loc(w), plumb_f32, shape(w)), &
        tensor(all, c_loc(dx), plumb_f32, shape(dx)), &
        mask_at, &
        bias_at, all%geometry, all%options)
    end if
    call finish(all, 'backward_data', code, status, message)
  end procedure

  module procedure backward_data_real64
    type(settled) :: all
    type(tensor_c), target :: mask_tensor, bias_tensor
    type(c_ptr) :: mask_at, bias_at
    integer(c_int32_t) :: code
    all = settle(shape(dx), shape(w), shape(dy), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, activation, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      mask_at = c_null_ptr
      if (present(mask)) then
        mask_tensor = tensor(all, c_loc(mask), plumb_f64, shape(mask))
        mask_at = c_loc(mask_tensor)
      end if
      bias_at = c_null_ptr
      if (present(bias)) then
        bias_tensor = host_tensor(c_loc(bias), plumb_f64, shape(bias, int64))
        bias_at = c_loc(bias_tensor)
      end if
      code = plumb_backward_data_host_c(device%handle, tensor(all, c_loc(dy), plumb_f64, shape(dy)), &
        tensor(all, c_loc(w), plumb_f64, shape(w)), &
        tensor(all, c_loc(dx), plumb_f64, shape(dx)), &
        mask_at, &
        bias_at, all%geometry, all%options)
    end if
    call finish(all, 'backward_data', code, status, message)
  end procedure

  module procedure backward_weights_real32
    type(settled) :: all
    type(tensor_c), target :: mask_tensor, db_tensor
    type(c_ptr) :: mask_at, db_at
    integer(c_int32_t) :: code
    all = settle(shape(x), shape(dw), shape(dy), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, deterministic=deterministic, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      mask_at = c_null_ptr
      if (present(mask)) then
        mask_tensor = tensor(all, c_loc(mask), plumb_f32, shape(mask))
        mask_at = c_loc(mask_tensor)
      end if
      db_at = c_null_ptr
      if (present(db)) then
        db_tensor = host_tensor(c_loc(db), plumb_f32, shape(db, int64))
        db_at = c_loc(db_tensor)
      end if
      code = plumb_backward_weights_host_c(device%handle, tensor(all, c_loc(x), plumb_f32, shape(x)), &
        tensor(all, c_loc(dy), plumb_f32, shape(dy)), &
        tensor(all, c_loc(dw), plumb_f32, shape(dw)), &
        db_at, &
        mask_at, all%geometry, all%options)
    end if
    call finish(all, 'backward_weights', code, status, message)
  end procedure

  module procedure backward_weights_real64
    type(settled) :: all
    type(tensor_c), target :: mask_tensor, db_tensor
    type(c_ptr) :: mask_at, db_at
    integer(c_int32_t) :: code
    all = settle(shape(x), shape(dw), shape(dy), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, deterministic=deterministic, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      mask_at = c_null_ptr
      if (present(mask)) then
        mask_tensor = tensor(all, c_loc(mask), plumb_f64, shape(mask))
        mask_at = c_loc(mask_tensor)
      end if
      db_at = c_null_ptr
      if (present(db)) then
        db_tensor = host_tensor(c_loc(db), plumb_f64, shape(db, int64))
        db_at = c_loc(db_tensor)
      end if
      code = plumb_backward_weights_host_c(device%handle, tensor(all, c_loc(x), plumb_f64, shape(x)), &
        tensor(all, c_loc(dy), plumb_f64, shape(dy)), &
        tensor(all, c_loc(dw), plumb_f64, shape(dw)), &
        db_at, &
        mask_at, all%geometry, all%options)
    end if
    call finish(all, 'backward_weights', code, status, message)
  end procedure

  module procedure transpose_real32
    type(settled) :: all
    type(tensor_c), target :: bias_tensor
    type(c_ptr) :: bias_at
    integer(c_int32_t) :: code
    all = settle(shape(y), shape(w), shape(x), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, activation, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      bias_at = c_null_ptr
      if (present(bias)) then
        bias_tensor = host_tensor(c_loc(bias), plumb_f32, shape(bias, int64))
        bias_at = c_loc(bias_tensor)
      end if
      code = plumb_transpose_host_c(device%handle, tensor(all, c_loc(x), plumb_f32, shape(x)), &
        tensor(all, c_loc(w), plumb_f32, shape(w)), &
        bias_at, &
        tensor(all, c_loc(y), plumb_f32, shape(y)), all%geometry, all%options)
    end if
    call finish(all, 'transpose', code, status, message)
  end procedure

  module procedure transpose_real64
    type(settled) :: all
    type(tensor_c), target :: bias_tensor
    type(c_ptr) :: bias_at
    integer(c_int32_t) :: code
    all = settle(shape(y), shape(w), shape(x), stride, dilation, padding, groups, boundary, &
      math, accumulate, axes, activation, reproducible=reproducible)
    code = wrong
    if (.not. allocated(all%own)) then
      bias_at = c_null_ptr
      if (present(bias)) then
        bias_tensor = host_tensor(c_loc(bias), plumb_f64, shape(bias, int64))
        bias_at = c_loc(bias_tensor)
      end if
      code = plumb_transpose_host_c(device%handle, tensor(all, c_loc(x), plumb_f64, shape(x)), &
        tensor(all, c_loc(w), plumb_f64, shape(w)), &
        bias_at, &
        tensor(all, c_loc(y), plumb_f64, shape(y)), all%geometry, all%options)
    end if
    call finish(all, 'transpose', code, status, message)
  end procedure

end submodule plumb_gradients
