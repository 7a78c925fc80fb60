! A field in three dimensions, periodic along each, smoothed in fp64 on the device that `auto` gives.
program field
  use, intrinsic :: iso_fortran_env, only: real64
  use plumb
  implicit none
  integer, parameter :: n = 64
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  type(plumb_plan) :: plan
  type(plumb_array) :: now, next, mean
  real(real64) :: u(n, n, n) = 0, w(3, 3, 3) = 1 / 27._real64

  u(1, 1, 1) = 27  ! in a corner: its neighbours are at the other ends too
  call device%open('auto')  ! the first GPU that works, otherwise the CPU
  call queue%create(device)
  call plan%create(device, shape(u), shape(w), plumb_f64, padding=1, boundary=plumb_periodic, axes=3)
  call now%create(device, shape(u), plumb_f64)
  call next%create(device, shape(u), plumb_f64)
  call mean%create(device, shape(w), plumb_f64)
  call now%upload(queue, u)
  call mean%upload(queue, w)
  call plan%execute(queue, now, mean, next)
  call next%download(queue, u)
  print '(2a, 2(a, f7.3))', device%name(), ': ', 'far corner', u(n, n, n), ', in all', sum(u)
end program field
