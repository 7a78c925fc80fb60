! Arrays that OpenMP keeps on a device: Plumb gets their addresses there and convolves them where they
! are. Without a GPU, or a compiler that offloads to it, the target region runs on the host, whose
! addresses Plumb takes on the CPU. OpenACC has host_data use_device, and CUDA Fortran c_devloc, for the
! same.
program device_pointers
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use omp_lib
  use plumb
  implicit none

  integer, parameter :: nx = 40, ny = 30, around = 1
  real(real64), target :: u(nx, ny), grown(0:nx + 1, 0:ny + 1), stencil(3, 3)
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  integer :: i, j
  real(real64) :: expected, largest

  if (omp_get_num_devices() > 0) then
    call device%open('cuda')
  else
    call device%open('cpu')
  end if
  call queue%create(device)
  stencil = 1
  do j = 1, ny
    do i = 1, nx
      u(i, j) = i + 100 * j
    end do
  end do
  grown = -1

  !$omp target data map(to: u, stencil) map(tofrom: grown)
  !$omp target data use_device_addr(u, stencil, grown)
  ! The result goes inside a border, which stays: an array of other strides than its shape has.
  call plumb_conv_pointers(queue, c_loc(u), shape(u), c_loc(stencil), shape(stencil), &
    c_loc(grown(1, 1)), [nx, ny], plumb_f64, padding=around, boundary=plumb_periodic, &
    y_strides=[1, nx + 2], device=device)
  call queue%synchronize()
  !$omp end target data
  !$omp end target data

  largest = 0
  do j = 1, ny
    do i = 1, nx
      expected = 0
      expected = sum_around(i, j)
      largest = max(largest, abs(grown(i, j) - expected))
    end do
  end do
  print '(3a, es9.2)', 'on ', device%id(), ': the largest difference is', largest
  if (largest > 0) error stop 'the sums of whole numbers differ'
  if (any(grown(0, :) /= -1) .or. any(grown(:, 0) /= -1) .or. any(grown(nx + 1, :) /= -1)) &
    error stop 'the border has been written'

contains

  real(real64) function sum_around(i, j)
    integer, intent(in) :: i, j
    integer :: a, b
    sum_around = 0
    do b = -1, 1
      do a = -1, 1
        sum_around = sum_around + u(modulo(i + a - 1, nx) + 1, modulo(j + b - 1, ny) + 1)
      end do
    end do
  end function

end program device_pointers
