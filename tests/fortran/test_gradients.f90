! Gradients and the transposed convolution of Fortran's own arrays. A convolution is linear in x and in w, so
! the gradient of sum(y dy) by one element is that sum with a one in its place and zeros elsewhere.
module test_gradients
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use plumb
  use plumb_case
  implicit none
  private
  public :: gradients_of_two_axes, gradients_of_one_axis, gradients_of_three_axes, gradients_refused

contains

  !> Small integers without a pattern.
  pure function some(count, seed) result(values)
    integer, intent(in) :: count, seed
    real(real64) :: values(count)
    integer :: i, state
    state = seed
    do i = 1, count
      state = mod(state * 1103 + 12345, 65536)
      values(i) = mod(state / 16, 7) - 3
    end do
  end function

  pure function one_at(place, count) result(values)
    integer, intent(in) :: place, count
    real(real64) :: values(count)
    values = 0
    values(place) = 1
  end function

  !> Groups, strides, dilations and four paddings, a mask, both biases, and sums to what was there.
  subroutine gradients_of_two_axes()
    real(real64) :: u(5, 4, 4, 2), v(2, 3, 2, 2), y(5, 3, 2, 2), dy(5, 3, 2, 2), mask(5, 3, 2, 2), &
      masked(5, 3, 2, 2), du(5, 4, 4, 2), dv(2, 3, 2, 2), db(2), c(4), by_u(160), by_v(24)
    integer :: i
    u = reshape(some(size(u), 3), shape(u))
    v = reshape(some(size(v), 4), shape(v))
    dy = reshape(some(size(dy), 5), shape(dy))
    mask = reshape(some(size(mask), 6), shape(mask))
    c = [1, -2, 3, 4]
    masked = merge(dy, 0._real64, mask > 0)
    do i = 1, size(by_u)
      call conv(reshape(one_at(i, size(by_u)), shape(u)), v, y)
      by_u(i) = sum(y * masked)
    end do
    do i = 1, size(by_v)
      call conv(u, reshape(one_at(i, size(by_v)), shape(v)), y)
      by_v(i) = sum(y * masked)
    end do
    du = 7
    call plumb_conv_backward_data(device, dy, v, du, mask=mask, bias=c, stride=[1, 2], &
      dilation=[2, 1], padding=[1, 2, 1, 1], groups=2, status=status, message=message)
    call check(status == plumb_ok, 'backward data: '//message)
    call check(all(du == reshape(by_u, shape(du)) + spread(spread(spread(c, 1, 5), 2, 4), 4, 2)), &
      'dx with a mask and a bias')
    dv = 1
    db = [2, 3]
    call plumb_conv_backward_weights(device, u, dy, dv, db, mask, stride=[1, 2], dilation=[2, 1], &
      padding=[1, 2, 1, 1], groups=2, accumulate=.true., deterministic=.true., &
      reproducible=.true., status=status, &
      message=message)
    call check(status == plumb_ok, 'backward weights: '//message)
    call check(all(dv == reshape(by_v, shape(dv)) + 1), 'dw added to what was there')
    call check(all(db == [2, 3] + sum(sum(sum(masked, 4), 2), 1)), 'db likewise')
    du = 7
    call plumb_conv_transpose(device, masked, v, du, c, stride=[1, 2], dilation=[2, 1], &
      padding=[1, 2, 1, 1], groups=2, activation=plumb_relu, status=status, message=message)
    call check(status == plumb_ok, 'transposed: '//message)
    call check(all(du == max(0._real64, reshape(by_u, shape(du)) + &
      spread(spread(spread(c, 1, 5), 2, 4), 4, 2))), 'a transposed convolution with a bias')

  contains

    subroutine conv(x, w, y)
      real(real64), intent(in) :: x(:, :, :, :), w(:, :, :, :)
      real(real64), intent(inout) :: y(:, :, :, :)
      call plumb_conv(device, x, w, y, stride=[1, 2], dilation=[2, 1], padding=[1, 2, 1, 1], groups=2)
    end subroutine
  end subroutine

  !> In single precision, of rank 3, in a periodic row.
  subroutine gradients_of_one_axis()
    real(real32) :: u(6, 2, 2), v(3, 2, 3), y(3, 3, 2), dy(3, 3, 2), du(6, 2, 2), dv(3, 2, 3), &
      by_u(24), by_v(18)
    integer :: i
    u = reshape(real(some(size(u), 3), real32), shape(u))
    v = reshape(real(some(size(v), 4), real32), shape(v))
    dy = reshape(real(some(size(dy), 5), real32), shape(dy))
    do i = 1, size(by_u)
      du = reshape(real(one_at(i, size(by_u)), real32), shape(u))
      call plumb_conv(device, du, v, y, stride=2, padding=1, boundary=plumb_periodic, axes=1)
      by_u(i) = sum(y * dy)
    end do
    do i = 1, size(by_v)
      dv = reshape(real(one_at(i, size(by_v)), real32), shape(v))
      call plumb_conv(device, u, dv, y, stride=2, padding=1, boundary=plumb_periodic, axes=1)
      by_v(i) = sum(y * dy)
    end do
    call plumb_conv_backward_data(device, dy, v, du, stride=2, padding=1, boundary=plumb_periodic, &
      axes=1)
    call check(all(du == reshape(by_u, shape(du))), 'dx of one axis')
    call plumb_conv_backward_weights(device, u, dy, dv, stride=2, padding=1, &
      boundary=plumb_periodic, axes=1)
    call check(all(dv == reshape(by_v, shape(dv))), 'dw of one axis')
    call plumb_conv_transpose(device, dy, v, du, stride=2, padding=1, boundary=plumb_periodic, axes=1)
    call check(all(du == reshape(by_u, shape(du))), 'a transposed convolution of one axis')
  end subroutine

  !> Of rank 5, with every extent another; fields of three indices are the same of one channel.
  subroutine gradients_of_three_axes()
    real(real64) :: u(5, 4, 3, 1, 1), v(3, 2, 2, 1, 1), y(5, 2, 3, 1, 1), dy(5, 2, 3, 1, 1), &
      du(5, 4, 3, 1, 1), dv(3, 2, 2, 1, 1), by_u(60), by_v(12), field(5, 4, 3)
    integer :: i
    u = reshape(some(size(u), 3), shape(u))
    v = reshape(some(size(v), 4), shape(v))
    dy = reshape(some(size(dy), 5), shape(dy))
    do i = 1, size(by_u)
      call conv(reshape(one_at(i, size(by_u)), shape(u)), v, y)
      by_u(i) = sum(y * dy)
    end do
    do i = 1, size(by_v)
      call conv(u, reshape(one_at(i, size(by_v)), shape(v)), y)
      by_v(i) = sum(y * dy)
    end do
    call plumb_conv_backward_data(device, dy, v, du, stride=[1, 2, 1], padding=[1, 0, 1, 1, 0, 0])
    call check(all(du == reshape(by_u, shape(du))), 'dx of three axes')
    call plumb_conv_backward_weights(device, u, dy, dv, stride=[1, 2, 1], &
      padding=[1, 0, 1, 1, 0, 0])
    call check(all(dv == reshape(by_v, shape(dv))), 'dw of three axes')
    call plumb_conv_transpose(device, dy(:, :, :, 1, 1), v(:, :, :, 1, 1), field, &
      stride=[1, 2, 1], padding=[1, 0, 1, 1, 0, 0], status=status, message=message)
    call check(status == plumb_ok, 'fields: '//message)
    call check(all(field == reshape(by_u, shape(field))), 'a transposed convolution of fields')

  contains

    subroutine conv(x, w, y)
      real(real64), intent(in) :: x(:, :, :, :, :), w(:, :, :, :, :)
      real(real64), intent(inout) :: y(:, :, :, :, :)
      call plumb_conv(device, x, w, y, stride=[1, 2, 1], padding=[1, 0, 1, 1, 0, 0])
    end subroutine
  end subroutine

  subroutine gradients_refused()
    real(real64) :: u(5, 4, 3, 2), v(2, 2, 3, 4), dy(4, 3, 4, 2), db(4)
    u = 1
    v = 1
    dy = 1
    call plumb_conv_backward_data(device, dy(:, :2, :, :), v, u, status=status, message=message)
    call refused('dy is (4, 2, 4, 2); expected (4, 3, 4, 2)')
    call plumb_conv_backward_weights(device, u, dy, v(:, :, :2, :), status=status, message=message)
    call refused('backward_weights: x is (5, 4, 3, 2) and w is (2, 2, 2, 4)')
    call plumb_conv_backward_weights(device, u, dy, v, db(:3), status=status, message=message)
    call refused('db')
    call plumb_conv_transpose(device, dy, v, u, stride=[1, 2, 3], status=status, message=message)
    call refused('transpose: stride has (3) numbers')
  end subroutine

  subroutine refused(words)
    character(*), intent(in) :: words
    call check(status == plumb_invalid_argument .and. index(message, words) > 0, &
      'expected "'//words//'" in: '//message)
  end subroutine

end module test_gradients
