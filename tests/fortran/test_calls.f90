! Every way of calling a convolution: Fortran's arrays, the device's, sections, and numbers left out.
module test_calls
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use plumb
  use plumb_case
  implicit none
  private
  public :: arrays_of_fortran, arrays_on_the_device, fields, sections, one_number

contains

  subroutine arrays_of_fortran()
    type(plumb_plan) :: single, double
    real(real32) :: x32(11, 9, 6, 2), w32(3, 2, 3, 4), y32(6, 10, 4, 2)
    real(real64) :: y64(6, 10, 4, 2)
    x32 = real(x, real32)
    w32 = real(w, real32)
    y32 = -1
    y64 = -1
    call plumb_conv(device, x32, w32, y32, real(bias, real32), stride, dilation, padding, groups, &
      plumb_relu)
    call check(all(y32 == real(expected, real32)), 'plumb_conv in real32')
    call plumb_conv(device, x, w, y64, bias, stride, dilation, padding, groups, plumb_relu)
    call check(all(y64 == expected), 'plumb_conv in real64')

    call planned(single, plumb_f32)
    call planned(double, plumb_f64)
    call check(all(single%y_shape() == y_shape), 'y_shape')
    call check(index(single%algorithm(), '.conv.') > 0, 'algorithm: '//single%algorithm())
    call check(single%workspace_bytes() >= 0, 'workspace_bytes')
    y32 = -1
    y64 = -1
    call single%execute(queue, x32, w32, y32, real(bias, real32), status=status, message=message)
    if (device%id() /= 'cpu') then
      call check(status == plumb_invalid_argument .and. index(message, 'on the host') > 0, &
        'arrays of the host are refused by a plan for another device')
      return
    end if
    call check(all(y32 == real(expected, real32)), 'execute on arrays of real32: '//message)
    call double%execute(queue, x, w, y64, bias)
    call check(all(y64 == expected), 'execute on arrays of real64')
  end subroutine

  subroutine arrays_on_the_device()
    type(plumb_plan) :: plan
    type(plumb_array) :: dx, dw, db, dy, scratch
    real(real64) :: y(6, 10, 4, 2)
    call planned(plan, plumb_f64)
    call dx%create(device, shape(x), plumb_f64)
    call dw%create(device, shape(w), plumb_f64)
    call db%create(device, shape(bias), plumb_f64)
    call dy%create(device, plan%y_shape(), plumb_f64)
    call check(all(dy%shape() == y_shape), 'the shape of a plumb_array')
    call dx%upload(queue, x)
    call dw%upload(queue, w)
    call db%upload(queue, bias)
    call plan%execute(queue, dx, dw, dy, db)
    y = -1
    call dy%download(queue, y)
    call check(all(y == expected), 'execute on plumb_arrays')

    y = -1
    call dy%upload(queue, y)
    call scratch%create(device, [max(1, int(plan%workspace_bytes() / 4))], plumb_f32)
    call plan%execute(queue, dx%address(), dw%address(), dy%address(), db%address(), &
      scratch%address())
    call dy%download(queue, y)
    call check(all(y == expected), 'execute on addresses, with workspace of the caller''s')
    call packed(plan, dx, dw, db, dy)
  end subroutine

  !> Filters packed once, after which w is spoilt.
  subroutine packed(plan, dx, dw, db, dy)
    type(plumb_plan), intent(in) :: plan
    type(plumb_array), intent(in) :: dx, db
    type(plumb_array), intent(inout) :: dw, dy
    type(plumb_filters) :: filters, none
    type(plumb_array) :: scratch
    real(real64) :: y(6, 10, 4, 2), spoilt(3, 2, 3, 4)
    call plan%pack(queue, dw, filters)
    spoilt = -99
    call dw%upload(queue, spoilt)
    y = -1
    call dy%upload(queue, y)
    call plan%execute(queue, dx, filters, dy, db)
    call dy%download(queue, y)
    call check(all(y == expected), 'execute with packed filters')

    y = -1
    call dy%upload(queue, y)
    call check(plan%packed_workspace_bytes() <= plan%workspace_bytes(), 'less workspace')
    call scratch%create(device, [max(1, int(plan%packed_workspace_bytes() / 4))], plumb_f32)
    call plan%execute(queue, dx%address(), filters, dy%address(), db%address(), scratch%address())
    call dy%download(queue, y)
    call check(all(y == expected), 'packed filters and addresses')

    call plan%execute(queue, dx, none, dy, db, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'filters') > 0, message)
    call plan%execute(queue, dx, filters, dy, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%pack(queue, dx, filters, status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'w is') > 0, message)
  end subroutine

  !> Indices left out: one channel, one image.
  subroutine fields()
    real(real32) :: u(5, 4), blur(3, 1), v(3, 4)
    integer :: i, j
    do concurrent(i=1:5, j=1:4)
      u(i, j) = i + 10 * j
    end do
    blur(:, 1) = [1, 0, 2]
    call plumb_conv(device, u, blur, v)
    call check(all(v == u(1:3, :) + 2 * u(3:5, :)), 'a field and a row of weights')
  end subroutine

  !> Sections that are not contiguous: Fortran makes copies of them, there and back.
  subroutine sections()
    real(real64) :: wide(22, 9, 6, 2), y(6, 10, 4, 4)
    type(plumb_array) :: dy
    wide = -9
    wide(::2, :, :, :) = x
    y = -1
    call plumb_conv(device, wide(::2, :, :, :), w, y(:, :, :, 2:4:2), bias, stride, dilation, &
      padding, groups, plumb_relu)
    call check(all(y(:, :, :, 2:4:2) == expected) .and. all(y(:, :, :, 1:3:2) == -1), 'sections')
    call dy%create(device, [6, 10, 4, 2], plumb_f64)
    call dy%upload(queue, y(:, :, :, 2:4:2))
    y = 0
    call dy%download(queue, y(:, :, :, 1:3:2))
    call check(all(y(:, :, :, 1:3:2) == expected) .and. all(y(:, :, :, 2:4:2) == 0), &
      'sections to the device and back')
  end subroutine

  !> One number is both directions and every side; a number and an array of one are the same.
  subroutine one_number()
    real(real64) :: wide(5, 5, 1, 1), mean(3, 3), y(5, 5), strided(3, 3), pairs(3, 5)
    type(plumb_plan) :: plan
    integer :: i, j
    wide = 1
    mean = 1
    y = -1
    call plumb_conv(device, wide, mean, y, padding=1)
    call check(all(y(2:4, 2:4) == 9) .and. all(y(::4, ::4) == 4) .and. all(y(2:4, ::4) == 6) .and. &
      all(y(::4, 2:4) == 6), 'one number pads every side')
    y = -1
    call plumb_conv(device, wide, mean, y, padding=[1])
    call check(all(y(::4, ::4) == 4), 'an array of one number')
    do concurrent(i=1:5, j=1:5)
      wide(i, j, 1, 1) = i + 10 * j
    end do
    mean = 0
    mean(2, 2) = 1
    call plumb_conv(device, wide, mean, strided, stride=2, padding=1)
    call check(all(strided == wide(::2, ::2, 1, 1)), 'one number strides both ways')
    call plumb_conv(device, wide, mean, pairs, stride=[2, 1], padding=[1, 1])
    call check(all(pairs == wide(::2, :, 1, 1)), 'two numbers are width and height, both sides')
    call plan%create(device, [9, 7], [3, 3], dilation=2)
    call check(all(plan%y_shape() == [5, 3, 1, 1]), 'one number dilates both ways')
    call plan%create(device, [9, 7], [3, 3], padding=[1, 2])
    call check(all(plan%y_shape() == [9, 9, 1, 1]), 'two paddings are both sides each')
    call plan%create(device, [9, 7], [3, 3], stride=[1, 2, 3], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'stride has (3) numbers') > 0, &
      message)
    call plan%create(device, [9, 7], [3, 3], dilation=reshape([1, 2], [1, 2]), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'dilation') > 0, message)
    call plan%create(device, [9, 7], [3, 3], padding=-1, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, '-1') > 0, message)
  end subroutine

end module test_calls
