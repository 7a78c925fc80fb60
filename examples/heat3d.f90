! Heat in a periodic block, step by step, on several MPI ranks: each has a slab of planes on the device
! it is given. Plumb exchanges the planes at the ends while it computes those between. Rank 0 then does
! the same with the whole block, which must give the same field.
program heat3d
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use plumb
  use plumb_mpi
  implicit none

  integer, parameter :: nx = 24, ny = 20, nz = 32, steps = 50
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  real(real64) :: stencil(3, 3, 3), block(nx, ny, nz) = 0
  real(real64), allocatable :: slab(:, :, :), gathered(:, :, :)
  integer, allocatable :: begins(:)
  character(:), allocatable :: reason
  integer :: rank, ranks, i, level

  ! Plumb computes with several threads, and calls MPI from this one.
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call plumb_device_for_rank(MPI_COMM_WORLD%MPI_VAL, device, reason)
  call queue%create(device)
  print '(a)', reason

  stencil = 0.01_real64  ! 27 weights that are positive and add up to 1
  stencil(2, 2, :) = 0.06_real64
  stencil(2, 2, 2) = 1 - (sum(stencil) - stencil(2, 2, 2))
  block(3:9, 15:20, 28:32) = 100
  allocate (begins(0:ranks), gathered(nx, ny, nz))
  begins = [(nz * i / ranks, i=0, ranks)]  ! planes as even as they go, as Plumb cuts them

  slab = block(:, :, begins(rank) + 1:begins(rank + 1))
  call in_parts(slab)
  begins = begins * nx * ny
  call MPI_Gatherv(slab, size(slab), MPI_DOUBLE_PRECISION, gathered, &
    begins(1:) - begins(:ranks - 1), begins, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  if (rank == 0) call compare(gathered, block)
  call MPI_Finalize()

contains

  !> This rank's planes after all steps.
  subroutine in_parts(u)
    real(real64), intent(inout) :: u(:, :, :)
    type(plumb_distributed) :: step
    type(plumb_array) :: now, next, w
    integer :: i
    call step%create(MPI_COMM_WORLD%MPI_VAL, device, shape(block), shape(stencil), [1, 1, ranks], &
      plumb_f64, padding=1, boundary=plumb_periodic, axes=3)
    if (any(step%x_begin() /= [1, 1, begins(rank) + 1, 1, 1])) error stop 'another slab than expected'
    call now%create(device, shape(u), plumb_f64)
    call next%create(device, shape(u), plumb_f64)
    call w%create(device, shape(stencil), plumb_f64)
    call now%upload(queue, u)
    call w%upload(queue, stencil)
    do i = 1, steps, 2
      call step%execute(queue, now, w, next)
      call step%execute(queue, next, w, now)
    end do
    call now%download(queue, u)
  end subroutine

  !> The ranks' field beside that of the whole block on this rank alone.
  subroutine compare(together, start)
    real(real64), intent(in) :: together(nx, ny, nz), start(nx, ny, nz)
    real(real64), allocatable :: alone(:, :, :), next(:, :, :)
    real(real64) :: difference, bound
    integer :: step
    allocate (alone(nx, ny, nz), next(nx, ny, nz))
    alone = start
    do step = 1, steps, 2
      call plumb_conv(device, alone, stencil, next, padding=1, boundary=plumb_periodic)
      call plumb_conv(device, next, stencil, alone, padding=1, boundary=plumb_periodic)
    end do
    difference = maxval(abs(together - alone))
    bound = steps * 2 * 28 * epsilon(bound) * maxval(start)  ! a step is a sum of 27 products
    print '(3(a, i0), 3(a, es9.2))', 'heat in ', nz, ' planes on ', ranks, ' ranks, ', steps, &
      ' steps: hottest', maxval(together), ', difference to one rank', difference, ' of at most', &
      bound
    if (.not. (difference <= bound .and. maxval(together) < 0.9_real64 * maxval(start) .and. &
      minval(together) > 0)) error stop 'the ranks together and one alone disagree'
  end subroutine

end program heat3d
