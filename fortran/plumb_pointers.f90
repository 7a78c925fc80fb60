! Convolution of arrays whose addresses other models give: OpenACC, OpenMP's target, CUDA Fortran.
submodule (plumb) plumb_pointers
  use plumb_shapes
  implicit none
  integer(c_int32_t), parameter :: wrong = int(plumb_invalid_argument, c_int32_t)

contains

  module procedure plumb_conv_pointers
    type(geometry_c), target :: geometry
    type(options_c) :: options
    type(tensor_c), target :: tensors(3), bias_tensor
    type(c_ptr) :: memory, with_bias
    character(:), allocatable :: own
    integer(c_int64_t) :: channels(1)
    integer(c_int32_t) :: code
    integer :: axes
    axes = axes_of(size(x_shape), size(w_shape), size(y_shape))
    call set_geometry(geometry, own, axes, stride, dilation, padding, groups, boundary)
    memory = c_null_ptr
    if (present(device)) memory = device%c_handle()
    if (.not. allocated(own)) call describe(tensors(1), 'x', x, x_shape, x_strides, axes, dtype, memory, own)
    if (.not. allocated(own)) call describe(tensors(2), 'w', w, w_shape, w_strides, axes, dtype, memory, own)
    if (.not. allocated(own)) call describe(tensors(3), 'y', y, y_shape, y_strides, axes, dtype, memory, own)
    if (allocated(own)) then
      call conclude(wrong, status, message, 'plumb_conv_pointers: '//own)
      return
    end if
    code = plumb_conv_options_init_c(options)
    if (present(activation)) options%activation = int(activation, c_int32_t)
    if (present(accumulate)) options%accumulate = merge(1_c_int32_t, 0_c_int32_t, accumulate)
    if (present(reproducible)) &
      options%reproducible = merge(1_c_int32_t, 0_c_int32_t, reproducible)
    with_bias = c_null_ptr
    if (present(bias)) then
      channels = tensors(3)%extents(2)
      code = plumb_tensor_init_c(bias_tensor, bias, memory, int(dtype, c_int32_t), 1_c_int32_t, &
        channels, c_null_ptr)
      with_bias = c_loc(bias_tensor)
    end if
    code = plumb_conv_c(queue%c_handle(), tensors(1), tensors(2), with_bias, tensors(3), geometry, options)
    call conclude(code, status, message)
  end procedure

  !> Those of images, by the indices that the arrays have.
  pure function axes_of(of_x, of_w, of_y) result(axes)
    integer, intent(in) :: of_x, of_w, of_y
    integer :: axes
    axes = 2
    if (max(of_x, of_w) == 5 .or. all([of_x, of_w, of_y] == 3)) axes = 3
    if (all([of_x, of_w, of_y] == 1)) axes = 1
  end function

  !> A tensor as C has it: the indices turned around, and ones for those that are left out.
  subroutine describe(tensor, name, data, extents, strides, axes, dtype, device, own)
    type(tensor_c), intent(out) :: tensor
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: data, device
    integer, intent(in) :: extents(:), axes, dtype
    integer, intent(in), optional :: strides(:)
    character(:), allocatable, intent(inout) :: own
    integer(c_int64_t) :: filled(5), steps(5), in_c(axes + 2)
    integer(c_int64_t), target :: steps_in_c(axes + 2)
    integer(c_int32_t) :: code
    integer :: i
    filled = five(int(extents, int64), axes)
    if (any(filled < 1)) then
      own = name//' is '//text(int(extents, int64))//'; expected '//trim(shapes(axes))
      return
    end if
    steps = 1
    do i = 2, 5
      steps(i) = steps(i - 1) * filled(i - 1)
    end do
    if (present(strides)) then
      if (size(strides) /= size(extents)) then
        own = name//' has another number of strides than of indices'
        return
      end if
      i = min(size(strides), axes)
      steps(:i) = strides(:i)
      steps(4:3 + size(strides) - i) = strides(i + 1:)
    end if
    in_c = shape_of(filled, axes)
    in_c = in_c(axes + 2:1:-1)
    steps_in_c = shape_of(steps, axes)
    steps_in_c = steps_in_c(axes + 2:1:-1)
    code = plumb_tensor_init_c(tensor, data, device, int(dtype, c_int32_t), int(axes + 2, c_int32_t), &
      in_c, c_loc(steps_in_c))
    if (code /= plumb_ok) own = text_of(plumb_last_message_c())
  end subroutine

end submodule plumb_pointers
