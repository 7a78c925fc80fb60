! Heat in a plate, step by step, each step a convolution of the field with a 3x3 stencil; then the same
! in plain loops, which it must agree with.
!
!   u(i,j) <- sum over a,b of w(a,b) u(i + a - 2, j + b - 2),  0 outside the plate (its edge is cold)
!
! Heat spreads faster along i than along j, and best along one diagonal, as in a crystal. With the cross
! derivative on that diagonal alone all weights are positive and add up to 1, so that no step makes
! an error larger, and the bound on the difference is that of the sums: 10 roundings a step on each side.
program heat
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use plumb
  implicit none

  integer, parameter :: nx = 200, ny = 120, steps = 400
  real(real64), parameter :: along_i = 0.2_real64, along_j = 0.12_real64, diagonal = 0.05_real64
  type(plumb_device) :: device
  real(real64) :: stencil(3, 3), plate(nx, ny)
  logical :: agreed
  integer :: i, j

  call device%open()  ! what PLUMB_DEVICE says; otherwise the first GPU that works, or the CPU
  print '(4a)', 'device  ', device%id(), '  ', device%name()

  stencil(:, 1) = [diagonal, along_j - diagonal, 0._real64]
  stencil(:, 3) = [0._real64, along_j - diagonal, diagonal]
  stencil(:, 2) = [along_i - diagonal, 1 - 2 * (along_i + along_j - diagonal), along_i - diagonal]
  do concurrent(i=1:nx, j=1:ny)
    plate(i, j) = merge(100, 0, (i - 60)**2 + (j - 40)**2 < 20**2)
  end do

  agreed = in_single(real(plate, real32), real(stencil, real32))
  agreed = in_double(plate, stencil) .and. agreed
  if (.not. agreed) error stop 'Plumb and the loops disagree'

contains

  logical function in_single(start, w) result(agreed)
    real(real32), intent(in) :: start(nx, ny), w(3, 3)
    real(real32), allocatable :: u(:, :), padded(:, :)
    type(plumb_queue) :: queue
    type(plumb_plan) :: plan
    type(plumb_array) :: now, next, stencil
    integer :: step

    allocate (u(nx, ny), padded(0:nx + 1, 0:ny + 1))
    call queue%create(device)
    call plan%create(device, shape(u), shape(w), padding=[1, 1], dtype=plumb_f32)
    call now%create(device, shape(u), plumb_f32)
    call next%create(device, shape(u), plumb_f32)
    call stencil%create(device, shape(w), plumb_f32)
    call now%upload(queue, start)
    call stencil%upload(queue, w)
    do step = 1, steps, 2  ! the field stays on the device all the time
      call plan%execute(queue, now, stencil, next)
      call plan%execute(queue, next, stencil, now)
    end do
    call now%download(queue, u)

    padded = 0
    padded(1:nx, 1:ny) = start
    do step = 1, steps
      padded(1:nx, 1:ny) = w(1, 1) * padded(0:nx - 1, 0:ny - 1) + w(2, 1) * padded(1:nx, 0:ny - 1) &
        + w(1, 2) * padded(0:nx - 1, 1:ny) + w(2, 2) * padded(1:nx, 1:ny) &
        + w(3, 2) * padded(2:nx + 1, 1:ny) &
        + w(2, 3) * padded(1:nx, 2:ny + 1) + w(3, 3) * padded(2:nx + 1, 2:ny + 1)
    end do
    agreed = report('real32', plan%algorithm(), real(maxval(start), real64), &
      real(maxval(u), real64), real(maxval(abs(u - padded(1:nx, 1:ny))), real64), &
      real(epsilon(u), real64))
  end function

  logical function in_double(start, w) result(agreed)
    real(real64), intent(in) :: start(nx, ny), w(3, 3)
    real(real64), allocatable :: u(:, :), padded(:, :)
    type(plumb_queue) :: queue
    type(plumb_plan) :: plan
    type(plumb_array) :: now, next, stencil
    integer :: step

    allocate (u(nx, ny), padded(0:nx + 1, 0:ny + 1))
    call queue%create(device)
    call plan%create(device, shape(u), shape(w), padding=[1, 1], dtype=plumb_f64)
    call now%create(device, shape(u), plumb_f64)
    call next%create(device, shape(u), plumb_f64)
    call stencil%create(device, shape(w), plumb_f64)
    call now%upload(queue, start)
    call stencil%upload(queue, w)
    do step = 1, steps, 2
      call plan%execute(queue, now, stencil, next)
      call plan%execute(queue, next, stencil, now)
    end do
    call now%download(queue, u)

    padded = 0
    padded(1:nx, 1:ny) = start
    do step = 1, steps
      padded(1:nx, 1:ny) = w(1, 1) * padded(0:nx - 1, 0:ny - 1) + w(2, 1) * padded(1:nx, 0:ny - 1) &
        + w(1, 2) * padded(0:nx - 1, 1:ny) + w(2, 2) * padded(1:nx, 1:ny) &
        + w(3, 2) * padded(2:nx + 1, 1:ny) &
        + w(2, 3) * padded(1:nx, 2:ny + 1) + w(3, 3) * padded(2:nx + 1, 2:ny + 1)
    end do
    agreed = report('real64', plan%algorithm(), maxval(start), maxval(u), &
      maxval(abs(u - padded(1:nx, 1:ny))), epsilon(u))
  end function

  !> Prints what came out, and judges it: heat has spread, and both ways of computing it agree.
  logical function report(kind, algorithm, hottest_before, hottest, difference, eps) result(agreed)
    character(*), intent(in) :: kind, algorithm
    real(real64), intent(in) :: hottest_before, hottest, difference, eps
    real(real64) :: bound
    bound = steps * 10 * eps * hottest_before  ! eps is two roundings
    print '(3a, i0, 3(a, es9.2))', kind, '  ', algorithm//', ', steps, ' steps: hottest', hottest, &
      ', difference', difference, ' of at most', bound
    agreed = difference <= bound .and. hottest < 0.9_real64 * hottest_before .and. hottest > 1
  end function

end program heat
