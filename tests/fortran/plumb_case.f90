! What the tests of the Fortran module share: one convolution of small integers, whose result plain loops
! give, and the count of what failed. With small integers every order of summation gives the same bits.
module plumb_case
  use, intrinsic :: iso_fortran_env, only: real64
  use plumb
  implicit none

  ! 2 images of 6 channels, 11 wide and 9 high; 4 filters, 3 wide and 2 high, in 2 groups.
  integer, parameter :: x_shape(4) = [11, 9, 6, 2], w_shape(4) = [3, 2, 3, 4], groups = 2
  integer, parameter :: stride(2) = [2, 1], dilation(2) = [1, 3], padding(4) = [2, 1, 0, 3]
  integer, parameter :: y_shape(4) = [6, 10, 4, 2]
  real(real64) :: x(11, 9, 6, 2), w(3, 2, 3, 4), bias(4), expected(6, 10, 4, 2)
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  integer :: failures = 0, status
  character(400) :: message = ''

contains

  !> Opens the device and fills x, w, bias and expected.
  subroutine set_up()
    call device%open(status=status, message=message)
    call check(status == plumb_ok .and. message == '', 'a device opens: '//message)
    call queue%create(device)
    call integers(x, 7)
    call integers(w, 5)
    bias = [1, -2, 3, 0]
    call convolve(x, w, bias, expected)
    call check(count(expected > 0) > 50 .and. count(expected == 0) > 50, 'the ReLU matters')
  end subroutine

  subroutine check(truth, what)
    logical, intent(in) :: truth
    character(*), intent(in) :: what
    if (truth) return
    print '(2a)', 'FAILED: ', what
    failures = failures + 1
  end subroutine

  !> Small integers without a pattern.
  subroutine integers(values, seed)
    real(real64), intent(out) :: values(..)
    integer, intent(in) :: seed
    integer :: i, state
    state = seed
    select rank (values)
    rank (4)
      block
        real(real64) :: flat(size(values))
        do i = 1, size(flat)
          state = mod(state * 1103 + 12345, 65536)
          flat(i) = mod(state / 16, 7) - 3
        end do
        values = reshape(flat, shape(values))
      end block
    rank default
      error stop 'integers: rank 4 only'
    end select
  end subroutine

  !> What the module must compute, as its first lines say it.
  subroutine convolve(x, w, bias, y)
    real(real64), intent(in) :: x(:, :, :, :), w(:, :, :, :), bias(:)
    real(real64), intent(out) :: y(:, :, :, :)
    integer :: n, k, p, q, c, r, s, i, j, first
    do n = 1, size(y, 4)
      do k = 1, size(y, 3)
        first = (k - 1) / (size(w, 4) / groups) * size(w, 3)
        do p = 1, size(y, 2)
          do q = 1, size(y, 1)
            y(q, p, k, n) = bias(k)
            do c = 1, size(w, 3)
              do r = 1, size(w, 2)
                do s = 1, size(w, 1)
                  i = (q - 1) * stride(1) + (s - 1) * dilation(1) - padding(1) + 1
                  j = (p - 1) * stride(2) + (r - 1) * dilation(2) - padding(2) + 1
                  if (i < 1 .or. i > size(x, 1) .or. j < 1 .or. j > size(x, 2)) cycle
                  y(q, p, k, n) = y(q, p, k, n) + x(i, j, first + c, n) * w(s, r, c, k)
                end do
              end do
            end do
            y(q, p, k, n) = max(y(q, p, k, n), 0._real64)
          end do
        end do
      end do
    end do
  end subroutine

  subroutine planned(plan, dtype)
    type(plumb_plan), intent(inout) :: plan
    integer, intent(in) :: dtype
    call plan%create(device, x_shape, w_shape, dtype, stride=stride, dilation=dilation, &
      padding=padding, groups=groups, bias=.true., activation=plumb_relu)
  end subroutine

end module plumb_case
