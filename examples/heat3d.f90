! Heat in a periodic block, step by step, on several MPI ranks: each has a slab of planes on the device
! it is given, with one more plane at either end, which is its neighbour's. Every step sends the planes
! at the ends round and convolves the slab with a 3x3x3 stencil; the field itself stays on the devices.
! Rank 0 then does the same with the whole block, which must give the same field.
program heat3d
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use plumb
  implicit none

  integer, parameter :: nx = 24, ny = 20, nz = 32, steps = 50
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  real(real64) :: stencil(3, 3, 3), block(nx, ny, nz) = 0
  real(real64), allocatable :: slab(:, :, :), gathered(:, :, :)
  integer, allocatable :: begins(:)
  integer :: rank, ranks, i

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (ranks > nz) error stop 'more ranks than planes'
  call open_device()

  stencil = 0.01_real64  ! 27 weights that are positive and add up to 1
  stencil(2, 2, :) = 0.06_real64
  stencil(2, 2, 2) = 1 - (sum(stencil) - stencil(2, 2, 2))
  block(3:9, 15:20, 28:32) = 100
  allocate (begins(0:ranks), gathered(nx, ny, nz))
  begins = [(nz * i / ranks, i=0, ranks)]  ! planes as even as they go
  allocate (slab(nx, ny, begins(rank + 1) - begins(rank)))

  slab = block(:, :, begins(rank) + 1:begins(rank + 1))
  call in_parts(slab)
  begins = begins * nx * ny
  call MPI_Gatherv(slab, size(slab), MPI_DOUBLE_PRECISION, gathered, &
    begins(1:) - begins(:ranks - 1), begins, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  if (rank == 0) call compare(gathered, block)
  call MPI_Finalize()

contains

  !> The GPUs of a node go round its ranks; where it has none, each rank takes the CPU.
  subroutine open_device()
    type(MPI_Comm) :: node
    character(12) :: name
    integer :: on_node, devices
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, on_node)
    call MPI_Comm_free(node)
    devices = plumb_device_count('cuda')
    name = 'cpu'
    if (devices > 0) write (name, '(a, i0)') 'cuda:', mod(on_node, devices)
    call device%open(name)
    call queue%create(device)
    print '(2(a, i0), 2a)', 'rank ', rank, ' of ', ranks, ' on ', device%id()
  end subroutine

  !> This rank's planes after all steps.
  subroutine in_parts(u)
    real(real64), intent(inout) :: u(:, :, :)
    real(real64), allocatable :: grown(:, :, :)
    type(plumb_plan) :: plan
    type(plumb_array) :: now, next, w
    integer :: step, planes
    planes = size(u, 3)
    allocate (grown(nx, ny, planes + 2), source=0._real64)
    grown(:, :, 2:planes + 1) = u
    ! What is computed in the planes of the neighbours is wrong, and theirs replaces it.
    call plan%create(device, shape(grown), shape(stencil), plumb_f64, padding=1, &
      boundary=[plumb_periodic, plumb_periodic, plumb_zeros], axes=3)
    call now%create(device, shape(grown), plumb_f64)
    call next%create(device, shape(grown), plumb_f64)
    call w%create(device, shape(stencil), plumb_f64)
    call now%upload(queue, grown)
    call w%upload(queue, stencil)
    do step = 1, steps, 2
      call exchange(now, planes)
      call plan%execute(queue, now, w, next)
      call exchange(next, planes)
      call plan%execute(queue, next, w, now)
    end do
    call now%download(queue, u, at=2)
  end subroutine

  !> Sends the first and the last plane of this rank to its neighbours, and receives theirs.
  subroutine exchange(field, planes)
    type(plumb_array), intent(inout) :: field
    integer, intent(in) :: planes
    real(real64) :: lowest(nx, ny), highest(nx, ny), below(nx, ny), above(nx, ny)
    integer :: lower, upper
    lower = modulo(rank - 1, ranks)
    upper = modulo(rank + 1, ranks)
    call field%download(queue, lowest, at=2)
    call field%download(queue, highest, at=planes + 1)
    call MPI_Sendrecv(highest, size(highest), MPI_DOUBLE_PRECISION, upper, 1, below, size(below), &
      MPI_DOUBLE_PRECISION, lower, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(lowest, size(lowest), MPI_DOUBLE_PRECISION, lower, 2, above, size(above), &
      MPI_DOUBLE_PRECISION, upper, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call field%upload(queue, below, at=1)
    call field%upload(queue, above, at=planes + 2)
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
