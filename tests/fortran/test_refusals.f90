! What is refused, in Fortran's words: shapes that do not fit, and results over what they come from.
module test_refusals
  use, intrinsic :: iso_c_binding, only: c_ptr, c_loc, c_f_pointer
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use plumb
  use plumb_case
  implicit none
  private
  public :: refusals, overlaps

contains

  subroutine refusals()
    type(plumb_device) :: none
    type(plumb_plan) :: plan
    type(plumb_array) :: array
    real(real64) :: y(6, 10, 4, 2), wrong(6, 11, 4, 2)
    real(real32) :: y32(6, 10, 4, 2)
    call none%open('abacus', status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'abacus') > 0, &
      'a device that is none: '//message)
    call check(plumb_status_name(status) == 'invalid_argument', plumb_status_name(status))
    call check(none%id() == '', 'what was not opened has no name')
    call none%open('cpu:7', status)
    call check(status == plumb_device_unavailable, 'a device that is not there')
    call none%open('cpu', status, message, providers='abacus')
    call check(status == plumb_invalid_argument .and. index(message, 'cudnn and onednn') > 0, &
      'a library that is none: '//message)
    call none%open('cpu', status, message, providers='onednn,cudnn')
    call check(status == plumb_ok, 'other libraries, whether they are there or not: '//message)
    call none%close()
    call plan%create(none, x_shape, [3, 2, 6, 4], status=status)
    call check(status == plumb_invalid_argument, 'a plan without a device')
    call plan%execute(queue, x, w, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'created') > 0, message)
    call check(plumb_device_count('cpu') == 1, 'one cpu')
    call check(plumb_device_count('abacus') == 0, 'no abacus')

    call plan%create(device, x_shape, [3, 2, 5, 4], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, '(3, 2, 5, 4)') > 0, message)
    call plan%create(device, x_shape, [12, 2, 6, 4], status=status, message=message)
    call check(status == plumb_invalid_argument, 'a filter wider than the image')
    call plan%create(device, x_shape, [3, 2, 6, 4], padding=[1, 2, 3], status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'padding') > 0, message)
    call plan%create(device, [x_shape, 1], [3, 2, 6, 4], status=status)
    call check(status == plumb_invalid_argument, 'five indices')

    call planned(plan, plumb_f64)
    call plan%execute(queue, x, w, wrong, bias, status, message)
    call check(status == plumb_invalid_argument .and. index(message, '(6, 11, 4, 2)') > 0, message)
    call plan%execute(queue, x, w, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%execute(queue, x, w, y, bias(1:3), status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%execute(queue, real(x, real32), real(w, real32), y32, real(bias, real32), status, &
      message)
    call check(status == plumb_invalid_argument .and. index(message, 'kind') > 0, message)
    call plumb_conv(device, x, w, wrong, bias, stride, dilation, padding, groups, status=status)
    call check(status == plumb_invalid_argument, 'a y that does not fit')
    call shapes_as_fortran_has_them()

    call array%create(device, [6, -1], status=status)
    call check(status == plumb_invalid_argument, 'a negative extent')
    call array%create(device, [huge(0), huge(0), huge(0)], status=status)
    call check(status == plumb_invalid_argument, 'more elements than can be counted')
    call array%create(device, [6, 7], 4, status)
    call check(status == plumb_invalid_argument, 'a kind that is none')
    call array%create(device, [6, 10, 4, 2], plumb_f64)
    call array%upload(queue, wrong, status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'shape') > 0, message)
    call array%upload(queue, y32, status)
    call check(status == plumb_invalid_argument, 'another kind')
  end subroutine

  !> C says [n, c, h, w]; no message of Fortran's does.
  subroutine shapes_as_fortran_has_them()
    real(real64) :: y(6, 10, 4, 2), wrong(6, 11, 4, 2)
    type(plumb_plan) :: plan
    type(plumb_array) :: array
    call plumb_conv(device, x, w, wrong, bias, stride, dilation, padding, groups, status=status, &
      message=message)
    call check(index(message, '(6, 11, 4, 2)') > 0 .and. index(message, '(6, 10, 4, 2)') > 0 .and. &
      index(message, '[') == 0, message)
    call plumb_conv(device, x, w, y, bias, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'groups=2 would fit') > 0 .and. &
      index(message, '(11, 9, 6, 2)') > 0 .and. index(message, '(3, 2, 3, 4)') > 0, message)
    call plan%create(device, x_shape, w_shape, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'groups=2 would fit') > 0, message)
    call plan%create(device, x_shape, [3, 2, 5, 4], status=status, message=message)
    call check(index(message, 'would fit') == 0, message)
    call array%create(device, [6, 10, 4, 2], plumb_f64)
    call array%upload(queue, wrong, status, message)
    call check(index(message, '(6, 11, 4, 2)') > 0 .and. index(message, '(6, 10, 4, 2)') > 0, message)
  end subroutine

  !> Results that would lie over what they are computed from.
  subroutine overlaps()
    type(plumb_plan) :: plan
    type(plumb_array) :: dx, dw
    real(real64), target :: field(5, 5), weights(3, 3), back(5, 5)
    field = 1
    weights = 1
    call plan%create(device, [5, 5], [3, 3], plumb_f64, padding=1)
    call dx%create(device, [5, 5], plumb_f64)
    call dw%create(device, [3, 3], plumb_f64)
    call dx%upload(queue, field)
    call dw%upload(queue, weights)
    call plan%execute(queue, dx%address(), dw%address(), dx%address(), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
    call check(index(message, '(5, 5, 1, 1) with strides (1, 5, 25, 25)') > 0 .and. &
      index(message, '[') == 0, message)
    call plan%execute(queue, dx%address(), dw%address(), dw%address(), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps w') > 0, message)
    call plan%execute(queue, dx, dw, dx, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
    call dx%download(queue, back)
    call check(all(back == field), 'nothing was written over')
    call on_host(c_loc(field))
    call check(all(field == 1), 'nor on the host')
  end subroutine

  !> One array under two names, as a caller who breaks Fortran's rule would have it.
  subroutine on_host(same)
    type(c_ptr), intent(in) :: same
    real(real64), pointer, contiguous :: x(:, :), y(:, :)
    real(real64) :: weights(1, 1)
    weights = 2
    call c_f_pointer(same, x, [5, 5])
    call c_f_pointer(same, y, [5, 5])
    call plumb_conv(device, x, weights, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
  end subroutine

end module test_refusals
