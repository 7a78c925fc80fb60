! Convolution across the ranks of an MPI communicator, from Fortran: what plumb/distributed.h has. Shapes,
! strides and boundaries are given as to the module plumb, with the first index running fastest; so are
! `parts`, into how many blocks each index of x is cut: [2, 2] cuts along the width and the height,
! [1, 1, 4] along the depth, and a last number, behind those of the axes and one for the channels, which
! is 1, cuts the batch. Ranks are counted with the first index running fastest.
!
! A communicator is an integer, as mpi_f08 has it in comm%MPI_VAL. Every rank makes the same calls; where
! one fails, all get its status and message.
module plumb_mpi
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use plumb
  use plumb_c
  use plumb_shapes
  implicit none
  private
  public :: plumb_distributed, plumb_device_for_rank

  integer, parameter, public :: plumb_forward = 0, plumb_backward_data = 1, plumb_backward_weights = 2

  type, bind(c) :: distributed_options_c  ! plumb_distributed_options
    integer(c_size_t) :: struct_size
    integer(c_int64_t) :: parts(4)
    type(c_ptr) :: sizes(4), output_sizes(3), x_strides, y_strides
    real(c_double) :: time_limit_seconds
    type(c_ptr) :: nccl_communicator
    integer(c_int32_t) :: transport, reserved
  end type

  !> A convolution spread over ranks. It is destroyed on every rank, before MPI_Finalize.
  type :: plumb_distributed
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: axes = 2
  contains
    procedure :: create => distributed_create
    !> Where this rank's block of x begins (with 1), and its shape; and of y.
    procedure :: x_begin => distributed_x_begin
    procedure :: x_shape => distributed_x_shape
    procedure :: y_begin => distributed_y_begin
    procedure :: y_shape => distributed_y_shape
    procedure, private :: execute_arrays, execute_pointers
    !> Runs it on this rank's blocks, by their parts: x, w and y; dy, w and dx; or x, dy and dw.
    !> Addresses are in the memory of the queue's device.
    generic :: execute => execute_arrays, execute_pointers
    procedure :: destroy => distributed_destroy
    final :: distributed_finalize
  end type

  interface
    function options_init_c(options) result(status) bind(c, name='plumb_distributed_options_init')
      import
      type(distributed_options_c), intent(out) :: options
      integer(c_int32_t) :: status
    end function
    function create_c(communicator, device, problem, conv, options, distributed) result(status) &
        bind(c, name='plumb_distributed_create_f')
      import
      integer(c_int), value :: communicator
      type(c_ptr), value :: device
      type(problem_c), intent(in) :: problem
      type(options_c), intent(in) :: conv
      type(distributed_options_c), intent(in) :: options
      type(c_ptr), intent(out) :: distributed
      integer(c_int32_t) :: status
    end function
    subroutine destroy_c(distributed) bind(c, name='plumb_distributed_destroy')
      import
      type(c_ptr), value :: distributed
    end subroutine
    function x_block_c(distributed, rank, begin, extents) result(status) &
        bind(c, name='plumb_distributed_x_block')
      import
      type(c_ptr), value :: distributed
      integer(c_int32_t), value :: rank
      integer(c_int64_t), intent(out) :: begin(5), extents(5)
      integer(c_int32_t) :: status
    end function
    function y_block_c(distributed, rank, begin, extents) result(status) &
        bind(c, name='plumb_distributed_y_block')
      import
      type(c_ptr), value :: distributed
      integer(c_int32_t), value :: rank
      integer(c_int64_t), intent(out) :: begin(5), extents(5)
      integer(c_int32_t) :: status
    end function
    function rank_c(distributed, rank) result(status) bind(c, name='plumb_distributed_rank')
      import
      type(c_ptr), value :: distributed
      integer(c_int32_t), intent(out) :: rank
      integer(c_int32_t) :: status
    end function
    function execute_c(distributed, queue, image, filters, bias, mask, output, db) result(status) &
        bind(c, name='plumb_distributed_execute')
      import
      type(c_ptr), value :: distributed, queue, image, filters, bias, mask, output, db
      integer(c_int32_t) :: status
    end function
    function device_for_rank_c(communicator, device, reason, bytes) result(status) &
        bind(c, name='plumb_device_for_rank_f')
      import
      integer(c_int), value :: communicator
      type(c_ptr), intent(out) :: device
      character(kind=c_char), intent(out) :: reason(*)
      integer(c_size_t), value :: bytes
      integer(c_int32_t) :: status
    end function
  end interface

contains

  !> The whole problem, over the ranks of a communicator.
  subroutine distributed_create(self, communicator, device, x_shape, w_shape, parts, dtype, stride, &
      dilation, padding, groups, boundary, bias, activation, accumulate, algorithm, axes, direction, &
      time_limit_seconds, reproducible, status, message)
    class(plumb_distributed), intent(inout) :: self
    integer, intent(in) :: communicator
    type(plumb_device), intent(in) :: device
    integer, intent(in) :: x_shape(:), w_shape(:)  !< of the whole x and w
    integer, intent(in) :: parts(:)
    integer, intent(in), optional :: dtype, stride(..), dilation(..), padding(..), groups
    integer, intent(in), optional :: boundary(..), activation, axes, direction
    logical, intent(in), optional :: bias, accumulate
    character(*), intent(in), optional :: algorithm
    real(c_double), intent(in), optional :: time_limit_seconds
    logical, intent(in), optional :: reproducible  !< the bits that are specified; not of dw
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    integer(c_int32_t), parameter :: wrong = int(plumb_invalid_argument, c_int32_t)
    type(geometry_c), target :: geometry
    type(problem_c) :: problem
    type(options_c) :: options
    type(distributed_options_c) :: spread
    character(:), allocatable :: own, unfit
    character(kind=c_char), allocatable, target :: name(:)
    integer(int64) :: x(5), w(5), cut(5)
    integer(c_int32_t) :: code
    call self%destroy()
    call count_axes(self%axes, unfit, max(size(x_shape), size(w_shape)), axes)
    call set_geometry(geometry, own, self%axes, stride, dilation, padding, groups, boundary)
    x = five(int(x_shape, int64), self%axes)
    w = five(int(w_shape, int64), self%axes)
    cut = five(int(parts, int64), self%axes)
    if (cut(4) /= 1) own = 'parts cut the channels; expected 1 in their place'
    if (allocated(unfit)) own = unfit
    if (allocated(own)) then
      call conclude(wrong, status, message, 'distributed: '//own)
      return
    end if
    code = plumb_conv_problem_init_c(problem)
    problem%geometry = c_loc(geometry)
    call set_extents(problem, x, w)
    if (present(dtype)) problem%dtype = int(dtype, c_int32_t)
    if (present(direction)) problem%direction = int(direction, c_int32_t)
    code = plumb_conv_options_init_c(options)
    if (present(activation)) options%activation = int(activation, c_int32_t)
    if (present(accumulate)) options%accumulate = merge(1_c_int32_t, 0_c_int32_t, accumulate)
    if (present(bias)) options%bias = merge(1_c_int32_t, 0_c_int32_t, bias)
    if (present(reproducible)) &
      options%reproducible = merge(1_c_int32_t, 0_c_int32_t, reproducible)
    if (present(algorithm)) then
      allocate (name(len_trim(algorithm) + 1))
      name = transfer(trim(algorithm)//c_null_char, name)
      options%algorithm = c_loc(name)
    end if
    code = options_init_c(spread)
    spread%parts = [cut(5), cut(3), cut(2), cut(1)]
    if (present(time_limit_seconds)) spread%time_limit_seconds = time_limit_seconds
    code = create_c(communicator, device%c_handle(), problem, options, spread, self%handle)
    call conclude(code, status, message)
  end subroutine

  !> A block's begin (from 1) and shape, of x or of y.
  subroutine find_block(self, of_x, begin, extents)
    class(plumb_distributed), intent(in) :: self
    logical, intent(in) :: of_x
    integer, allocatable, intent(out) :: begin(:), extents(:)
    integer(c_int64_t) :: from(5), sizes(5)
    integer(c_int32_t) :: code, rank
    code = rank_c(self%handle, rank)
    if (of_x) then
      code = x_block_c(self%handle, rank, from, sizes)
    else
      code = y_block_c(self%handle, rank, from, sizes)
    end if
    if (code /= plumb_ok) then
      from = 0
      sizes = 0
    end if
    begin = int(shape_of(from(5:1:-1), self%axes)) + 1
    extents = int(shape_of(sizes(5:1:-1), self%axes))
  end subroutine

  function distributed_x_begin(self) result(begin)
    class(plumb_distributed), intent(in) :: self
    integer, allocatable :: begin(:), extents(:)
    call find_block(self, .true., begin, extents)
  end function

  function distributed_x_shape(self) result(extents)
    class(plumb_distributed), intent(in) :: self
    integer, allocatable :: begin(:), extents(:)
    call find_block(self, .true., begin, extents)
  end function

  function distributed_y_begin(self) result(begin)
    class(plumb_distributed), intent(in) :: self
    integer, allocatable :: begin(:), extents(:)
    call find_block(self, .false., begin, extents)
  end function

  function distributed_y_shape(self) result(extents)
    class(plumb_distributed), intent(in) :: self
    integer, allocatable :: begin(:), extents(:)
    call find_block(self, .false., begin, extents)
  end function

  subroutine execute_arrays(self, queue, x, w, y, bias, status, message)
    class(plumb_distributed), intent(in) :: self
    type(plumb_queue), intent(in) :: queue
    type(plumb_array), intent(in) :: x, w
    type(plumb_array), intent(inout) :: y
    type(plumb_array), intent(in), optional :: bias
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    if (present(bias)) then
      call execute_pointers(self, queue, x%address(), w%address(), y%address(), bias%address(), &
        status=status, message=message)
    else
      call execute_pointers(self, queue, x%address(), w%address(), y%address(), status=status, &
        message=message)
    end if
  end subroutine

  subroutine execute_pointers(self, queue, x, w, y, bias, mask, db, status, message)
    class(plumb_distributed), intent(in) :: self
    type(plumb_queue), intent(in) :: queue
    type(c_ptr), intent(in) :: x, w, y
    type(c_ptr), intent(in), optional :: bias, mask, db
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    type(c_ptr) :: given(3)
    given = c_null_ptr
    if (present(bias)) given(1) = bias
    if (present(mask)) given(2) = mask
    if (present(db)) given(3) = db
    call conclude(execute_c(self%handle, queue%c_handle(), x, w, given(1), given(2), y, given(3)), &
      status, message)
  end subroutine

  subroutine distributed_destroy(self)
    class(plumb_distributed), intent(inout) :: self
    call destroy_c(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine distributed_finalize(self)
    type(plumb_distributed), intent(inout) :: self
    call destroy_c(self%handle)
    self%handle = c_null_ptr
  end subroutine

  !> Opens the device of this rank, and says why it is that one: the GPUs of a node go round its ranks.
  subroutine plumb_device_for_rank(communicator, device, reason, status, message)
    integer, intent(in) :: communicator
    type(plumb_device), intent(inout) :: device
    character(:), allocatable, intent(out), optional :: reason
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    character(kind=c_char) :: text(512)
    type(c_ptr) :: handle
    integer(c_int32_t) :: code
    integer :: i
    text = c_null_char
    code = device_for_rank_c(communicator, handle, text, size(text, kind=c_size_t))
    if (code == plumb_ok) call device%adopt(handle)
    if (present(reason)) then
      reason = ''
      do i = 1, size(text)
        if (text(i) == c_null_char) exit
        reason = reason//text(i)
      end do
    end if
    call conclude(code, status, message)
  end subroutine

end module plumb_mpi
