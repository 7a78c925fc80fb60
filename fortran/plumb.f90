! Plumb from Fortran: devices, queues, arrays on a device, and convolution, over the C interface.
!
! Fortran keeps an array with its first index running fastest, so the x of a convolution is declared
! x(w, h, c, n): width, height, channels, images. In memory that is C's and Plumb's dense N C H W, and
! nothing is turned around or copied. Likewise filters are w(s, r, c/groups, k) (width, height, input
! channels, output channels), the bias is bias(k), and the result is y(q, p, k, n). Trailing indices may
! be left out: a field u(nx, ny) is one image of one channel, nx wide and ny high, and a stencil is
! w(3, 3). Pairs such as a stride go in the same order: along the first index, then along the second.
! One number in their place, which need not be an array, is for all directions and every side.
! What is computed is the sum of x(i + a, j + b) w(a, b), without turning the filter around.
!
! Images may have one axis or three: x(w, c, n), w(s, c/groups, k), y(q, k, n), or x(w, h, d, c, n),
! w(s, r, t, c/groups, k), y(q, p, z, k, n). They have two unless `axes` says 1 or 3 or an array has five
! indices. plumb_conv, which sees y, also takes x, w and y of three indices each as fields in three
! dimensions, u(nx, ny, nz), and of one index each as fields in one. What lies beyond the edges, as far as
! the padding goes, is `boundary`: one for all axes, or one along each, plumb_zeros unless given.
!
! Of a gradient dy has y's shape, dx that of x and dw that of w. plumb_conv_backward_data,
! plumb_conv_backward_weights and plumb_conv_transpose take Fortran's own arrays, as plumb_conv does.
!
! Every procedure that can fail has `status` and `message`, as allocate has stat and errmsg: status is
! plumb_ok or what went wrong, and without it a failure ends the program with the message. message is
! set on a failure alone, and cut or filled with blanks to its length.
!
! Objects free what they hold when they go out of scope, in any order. A device may be assigned (both
! are then the same device); queues, arrays, filters and plans may not. Devices and plans may be used by several
! threads at once, a queue by one at a time.
!
! What is written shares no memory with what is read: status is plumb_invalid_argument where it does.
module plumb
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real32, real64, int64
  use plumb_c
  implicit none
  private

  public :: plumb_device, plumb_queue, plumb_array, plumb_plan, plumb_filters, plumb_conv
  public :: plumb_conv_backward_data, plumb_conv_backward_weights, plumb_conv_transpose
  public :: plumb_candidate
  public :: plumb_device_count, plumb_status_name, plumb_version

  integer, parameter, public :: plumb_ok = 0, plumb_invalid_argument = 1, plumb_unsupported = 2, &
      plumb_device_unavailable = 3, plumb_out_of_memory = 4, plumb_device_failure = 5, &
      plumb_internal_error = 6
  !> Kinds of elements: real(real32) and real(real64), and two that Fortran has no name for.
  integer, parameter, public :: plumb_f32 = 0, plumb_f64 = 1, plumb_f16 = 2, plumb_bf16 = 3
  !> The least accurate arithmetic that the caller allows.
  integer, parameter, public :: plumb_fp64 = 0, plumb_fp32 = 1, plumb_tf32 = 2, &
      plumb_math_bf16 = 3, plumb_math_fp16 = 4
  integer, parameter, public :: plumb_no_activation = 0, plumb_relu = 1
  !> What lies in the padding beside a b c d: zeros; c d | a b c d | a b; c b | a b c d | c b;
  !> b a | a b c d | d c; a a | a b c d | d d.
  integer, parameter, public :: plumb_zeros = 0, plumb_periodic = 1, plumb_reflect = 2, &
      plumb_symmetric = 3, plumb_clamp = 4

  type :: plumb_device
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => device_open
    procedure :: close => device_close
    procedure :: id => device_id
    procedure :: name => device_name
    procedure :: why => device_why
    procedure :: c_handle => device_c_handle
    procedure :: adopt => device_adopt
    procedure, private :: device_assign
    generic :: assignment(=) => device_assign
    final :: device_finalize
  end type

  !> Work in order, on one device: its own, or the caller's cudaStream_t.
  type :: plumb_queue
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => queue_create
    procedure :: synchronize => queue_synchronize
    procedure :: c_handle => queue_c_handle
    procedure, private :: queue_assign
    generic :: assignment(=) => queue_assign
    final :: queue_finalize
  end type

  !> An array in a device's memory.
  type :: plumb_array
    private
    type(plumb_device) :: device
    type(c_ptr) :: memory = c_null_ptr
    integer(c_size_t) :: bytes = 0
    integer :: dtype = plumb_f32
    integer(int64), allocatable :: extents(:)
  contains
    procedure :: create => array_create
    procedure :: address => array_address
    procedure :: shape => array_shape
    procedure, private :: upload_real32, upload_real64, download_real32, download_real64
    !> Copies a whole array to or from the device, or with `at` the planes from that last index on, as
    !> many as the array on the host has; the copy is complete on return.
    generic :: upload => upload_real32, upload_real64
    generic :: download => download_real32, download_real64
    procedure, private :: array_assign
    generic :: assignment(=) => array_assign
    final :: array_finalize
  end type

  !> What one algorithm says to a plan's problem: whether it can run, and if not why.
  type :: plumb_candidate
    character(:), allocatable :: algorithm  !< its name
    character(:), allocatable :: reason     !< 'none' where it can run; otherwise a code: 'math'
    character(:), allocatable :: sentence   !< the reason with its values, for people
    character(:), allocatable :: remedy     !< what would let it run; empty where it can
    real(real64) :: estimate_seconds = 0    !< 0 where the algorithm itself refuses
    real(real64) :: measured_seconds = -1   !< from tuning; negative where it was not tuned
    integer(int64) :: workspace_bytes = 0   !< 0 where the algorithm itself refuses
    integer :: error_class = plumb_fp32     !< whose promise its arithmetic keeps
    logical :: deterministic = .false.      !< the same bits every time
    logical :: reproducible = .false.       !< the bits that are specified, where the plan asks for them
    logical :: invariant = .false.          !< an image has the same bits in every batch
    logical :: pool_fused = .false.         !< the kernel pools by itself, where the plan pools
    logical :: copies_input = .false.       !< x goes through workspace first, for its boundary or depth
    logical :: accumulate_fused = .false.   !< the kernel itself adds to y, where the plan accumulates
    logical :: chosen = .false.             !< the one that the plan takes
  end type

  !> Filters as the algorithm of a plan wants them, packed once for any number of convolutions. What
  !> they were packed from may be changed or freed once the queue has passed the packing. They go when
  !> no work uses them any more.
  type :: plumb_filters
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: filters_assign
    generic :: assignment(=) => filters_assign
    final :: filters_finalize
  end type

  !> A convolution that has been checked and whose algorithm has been chosen.
  type :: plumb_plan
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(int64), dimension(5) :: x_extents = 0, w_extents = 0, y_extents = 0  ! w h d c n
    integer :: axes = 2, dtype = plumb_f32
    logical :: on_host = .false., with_bias = .false.
  contains
    procedure :: create => plan_create
    procedure :: algorithm => plan_algorithm
    procedure :: workspace_bytes => plan_workspace_bytes
    procedure :: packed_workspace_bytes => plan_packed_workspace_bytes
    procedure :: y_shape => plan_y_shape
    procedure :: explain => plan_explain
    procedure, private :: execute_arrays, execute_pointers, execute_real32, execute_real64
    procedure, private :: execute_packed_arrays, execute_packed_pointers
    procedure, private :: pack_array, pack_pointer
    !> Puts the packing of w on a queue: a plumb_array, or an address in the device's memory.
    generic :: pack => pack_array, pack_pointer
    !> Puts the convolution on a queue: plumb_arrays, or addresses in the device's memory, with
    !> plumb_filters in the place of w where they have been packed. On the CPU also Fortran's own
    !> arrays.
    generic :: execute => execute_arrays, execute_pointers, execute_real32, execute_real64, &
        execute_packed_arrays, execute_packed_pointers
    procedure, private :: plan_assign
    generic :: assignment(=) => plan_assign
    final :: plan_finalize
  end type

  !> One convolution of Fortran's own arrays, on any device: call plumb_conv(device, x, w, y). On a GPU
  !> they are copied there and back in segments; who keeps data there takes plumb_array and plumb_plan.
  interface plumb_conv
    module procedure conv_real32, conv_real64
  end interface
  !> One convolution of arrays in the memory of a queue's device, which other models keep (OpenACC's
  !> host_data use_device, OpenMP's use_device_addr, CUDA Fortran): addresses, each with its shape and,
  !> where it is not contiguous, its strides in elements: call plumb_conv_pointers(queue, c_loc(x),
  !> shape(x), c_loc(w), shape(w), c_loc(y), shape(y), plumb_f64). Put on the queue, and not waited for.
  public :: plumb_conv_pointers
  !> The gradient by x, of x's shape, from dy of y's: call plumb_conv_backward_data(device, dy, w, dx).
  !> Where a ReLU followed, `mask` is its output, and dy counts where that is above 0; `bias(c)` is added.
  interface plumb_conv_backward_data
    module procedure backward_data_real32, backward_data_real64
  end interface
  !> The gradient by w, and by the bias, db(k): call plumb_conv_backward_weights(device, x, dy, dw, db).
  interface plumb_conv_backward_weights
    module procedure backward_weights_real32, backward_weights_real64
  end interface
  !> The transposed convolution, backward data by another name: x(q, p, k, n) has dy's shape, bias(c) and
  !> y(w, h, c, n) dx's. How far y goes beyond the least shape, its output padding, its own shape says.
  interface plumb_conv_transpose
    module procedure transpose_real32, transpose_real64
  end interface

  interface  ! plumb_arrays.f90
    !> Uninitialised memory for an array of this shape.
    module subroutine array_create(self, device, extents, dtype, status, message)
      class(plumb_array), intent(inout) :: self
      type(plumb_device), intent(in) :: device
      integer, intent(in) :: extents(:)
      integer, intent(in), optional :: dtype  !< plumb_f32 unless given
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    !> Where the array lies in the device's memory.
    module function array_address(self) result(memory)
      class(plumb_array), intent(in) :: self
      type(c_ptr) :: memory
    end function
    module function array_shape(self) result(extents)
      class(plumb_array), intent(in) :: self
      integer, allocatable :: extents(:)
    end function
    module subroutine upload_real32(self, queue, from, status, message, at)
      class(plumb_array), intent(inout) :: self
      type(plumb_queue), intent(in) :: queue
      real(real32), intent(in), contiguous, target :: from(..)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: at  !< the last index of the first plane that is copied
    end subroutine
    module subroutine upload_real64(self, queue, from, status, message, at)
      class(plumb_array), intent(inout) :: self
      type(plumb_queue), intent(in) :: queue
      real(real64), intent(in), contiguous, target :: from(..)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: at  !< the last index of the first plane that is copied
    end subroutine
    module subroutine download_real32(self, queue, to, status, message, at)
      class(plumb_array), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      real(real32), intent(inout), contiguous, target :: to(..)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: at  !< the last index of the first plane that is copied
    end subroutine
    module subroutine download_real64(self, queue, to, status, message, at)
      class(plumb_array), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      real(real64), intent(inout), contiguous, target :: to(..)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: at  !< the last index of the first plane that is copied
    end subroutine
    module subroutine array_assign(to, from)
      class(plumb_array), intent(inout) :: to
      class(plumb_array), intent(in) :: from
    end subroutine
    module subroutine array_finalize(self)
      type(plumb_array), intent(inout) :: self
    end subroutine
  end interface

  interface  ! plumb_pointers.f90
    module subroutine plumb_conv_pointers(queue, x, x_shape, w, w_shape, y, y_shape, dtype, stride, &
        dilation, padding, groups, boundary, bias, activation, accumulate, x_strides, w_strides, &
        y_strides, device, reproducible, status, message)
      type(plumb_queue), intent(in) :: queue
      type(c_ptr), intent(in) :: x, w, y
      !> As plumb_conv has them: x, w and y of three indices each are fields in three dimensions.
      integer, intent(in) :: x_shape(:), w_shape(:), y_shape(:)
      integer, intent(in) :: dtype
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), groups, boundary(..)
      type(c_ptr), intent(in), optional :: bias  !< (k)
      integer, intent(in), optional :: activation
      logical, intent(in), optional :: accumulate
      integer, intent(in), optional :: x_strides(:), w_strides(:), y_strides(:)
      type(plumb_device), intent(in), optional :: device  !< whose memory it is; the host's without it
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
  end interface

  interface  ! plumb_convolution.f90
    module subroutine plan_create(self, device, x_shape, w_shape, dtype, stride, dilation, padding, &
        groups, bias, activation, math, deterministic, workspace_limit_bytes, algorithm, status, &
        message, boundary, accumulate, axes, reproducible)
      class(plumb_plan), intent(inout) :: self
      type(plumb_device), intent(in) :: device
      integer, intent(in) :: x_shape(:), w_shape(:)
      integer, intent(in), optional :: dtype        !< plumb_f32 unless given
      integer, intent(in), optional :: stride(..)    !< one number, or one along each axis
      integer, intent(in), optional :: dilation(..)  !< one number, or one along each axis
      !> How far x goes on beyond its edges: one number for every side, one for both sides of each
      !> axis, or one for each side, (left, top, right, bottom).
      integer, intent(in), optional :: padding(..)
      integer, intent(in), optional :: groups
      logical, intent(in), optional :: bias         !< one is added; execute then needs it
      integer, intent(in), optional :: activation, math
      logical, intent(in), optional :: deterministic
      integer(int64), intent(in), optional :: workspace_limit_bytes
      character(*), intent(in), optional :: algorithm  !< this one or none
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: boundary(..)  !< one number, or one along each axis
      logical, intent(in), optional :: accumulate    !< the result is added to what y holds
      integer, intent(in), optional :: axes          !< of an image: 1, 2 or 3
    end subroutine
    module function plan_algorithm(self) result(name)
      class(plumb_plan), intent(in) :: self
      character(:), allocatable :: name
    end function
    module function plan_workspace_bytes(self) result(bytes)
      class(plumb_plan), intent(in) :: self
      integer(int64) :: bytes
    end function
    !> What execute takes with plumb_filters.
    module function plan_packed_workspace_bytes(self) result(bytes)
      class(plumb_plan), intent(in) :: self
      integer(int64) :: bytes
    end function
    !> (q, p, k, n), or what the axes make of it
    module function plan_y_shape(self) result(extents)
      class(plumb_plan), intent(in) :: self
      integer, allocatable :: extents(:)
    end function
    !> Every algorithm of the plan's device, in its order, in the place of what was in `candidates`.
    module subroutine plan_explain(self, candidates, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_candidate), allocatable, intent(inout) :: candidates(:)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_arrays(self, queue, x, w, y, bias, workspace, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(plumb_array), intent(in) :: x, w
      type(plumb_array), intent(inout) :: y
      type(plumb_array), intent(in), optional :: bias
      type(c_ptr), intent(in), optional :: workspace  !< workspace_bytes(), 256-byte aligned
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_pointers(self, queue, x, w, y, bias, workspace, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(c_ptr), intent(in) :: x, w, y
      type(c_ptr), intent(in), optional :: bias, workspace
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine pack_array(self, queue, w, filters, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(plumb_array), intent(in) :: w
      type(plumb_filters), intent(inout) :: filters
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine pack_pointer(self, queue, w, filters, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(c_ptr), intent(in) :: w
      type(plumb_filters), intent(inout) :: filters
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_packed_arrays(self, queue, x, filters, y, bias, workspace, status, &
        message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(plumb_array), intent(in) :: x
      type(plumb_filters), intent(in) :: filters
      type(plumb_array), intent(inout) :: y
      type(plumb_array), intent(in), optional :: bias
      type(c_ptr), intent(in), optional :: workspace  !< packed_workspace_bytes(), 256-byte aligned
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_packed_pointers(self, queue, x, filters, y, bias, workspace, status, &
        message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      type(c_ptr), intent(in) :: x, y
      type(plumb_filters), intent(in) :: filters
      type(c_ptr), intent(in), optional :: bias, workspace
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_real32(self, queue, x, w, y, bias, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      real(real32), intent(in), contiguous, target :: x(..), w(..)
      real(real32), intent(inout), contiguous, target :: y(..)
      real(real32), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine execute_real64(self, queue, x, w, y, bias, status, message)
      class(plumb_plan), intent(in) :: self
      type(plumb_queue), intent(in) :: queue
      real(real64), intent(in), contiguous, target :: x(..), w(..)
      real(real64), intent(inout), contiguous, target :: y(..)
      real(real64), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine conv_real32(device, x, w, y, bias, stride, dilation, padding, groups, &
        activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real32), intent(in), contiguous, target :: x(..), w(..)
      real(real32), intent(inout), contiguous, target :: y(..)
      real(real32), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..)
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: boundary(..), axes
      logical, intent(in), optional :: accumulate
    end subroutine
    module subroutine conv_real64(device, x, w, y, bias, stride, dilation, padding, groups, &
        activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real64), intent(in), contiguous, target :: x(..), w(..)
      real(real64), intent(inout), contiguous, target :: y(..)
      real(real64), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..)
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
      integer, intent(in), optional :: boundary(..), axes
      logical, intent(in), optional :: accumulate
    end subroutine
  end interface

  interface  ! plumb_devices.f90
    module function plumb_status_name(status) result(name)
      integer, intent(in) :: status
      character(:), allocatable :: name
    end function
    module function plumb_version() result(version)
      character(:), allocatable :: version
    end function
    !> The devices of a backend, 'cpu' or 'cuda'; 0 where there are none.
    module function plumb_device_count(backend) result(count)
      character(*), intent(in) :: backend
      integer :: count
    end function
    !> `spec`: 'auto' (the first GPU that works, otherwise the CPU), 'cpu', 'cuda', 'cuda:1'. Without
    !> it, what PLUMB_DEVICE says, or 'auto'. `providers`: other libraries whose algorithms are listed
    !> too, 'cudnn,onednn', or 'none'; without it, what PLUMB_PROVIDERS says, or none.
    module subroutine device_open(self, spec, status, message, providers)
      class(plumb_device), intent(inout) :: self
      character(*), intent(in), optional :: spec, providers
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine device_close(self)
      class(plumb_device), intent(inout) :: self
    end subroutine
    !> 'cpu', 'cuda:0'; empty where none is open.
    module function device_id(self) result(text)
      class(plumb_device), intent(in) :: self
      character(:), allocatable :: text
    end function
    !> As the vendor calls it.
    module function device_name(self) result(text)
      class(plumb_device), intent(in) :: self
      character(:), allocatable :: text
    end function
    !> For a device that 'auto' chose, what it passed over and why.
    module function device_why(self) result(text)
      class(plumb_device), intent(in) :: self
      character(:), allocatable :: text
    end function
    !> C's plumb_device, for what takes one; it goes with this object.
    module function device_c_handle(self) result(handle)
      class(plumb_device), intent(in) :: self
      type(c_ptr) :: handle
    end function
    !> Becomes C's plumb_device, which this object then closes.
    module subroutine device_adopt(self, handle)
      class(plumb_device), intent(inout) :: self
      type(c_ptr), intent(in) :: handle
    end subroutine
    !> C's plumb_queue, likewise.
    module function queue_c_handle(self) result(handle)
      class(plumb_queue), intent(in) :: self
      type(c_ptr) :: handle
    end function
    module subroutine device_assign(to, from)
      class(plumb_device), intent(inout) :: to
      class(plumb_device), intent(in) :: from
    end subroutine
    module subroutine device_finalize(self)
      type(plumb_device), intent(inout) :: self
    end subroutine
    !> `stream`: the caller's cudaStream_t, which must outlive the queue. Without it the queue has its
    !> own.
    module subroutine queue_create(self, device, stream, status, message)
      class(plumb_queue), intent(inout) :: self
      type(plumb_device), intent(in) :: device
      type(c_ptr), intent(in), optional :: stream
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine queue_synchronize(self, status, message)
      class(plumb_queue), intent(in) :: self
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine queue_assign(to, from)
      class(plumb_queue), intent(inout) :: to
      class(plumb_queue), intent(in) :: from
    end subroutine
    module subroutine queue_finalize(self)
      type(plumb_queue), intent(inout) :: self
    end subroutine
    module subroutine filters_assign(to, from)
      class(plumb_filters), intent(inout) :: to
      class(plumb_filters), intent(in) :: from
    end subroutine
    module subroutine filters_finalize(self)
      type(plumb_filters), intent(inout) :: self
    end subroutine
    module subroutine plan_assign(to, from)
      class(plumb_plan), intent(inout) :: to
      class(plumb_plan), intent(in) :: from
    end subroutine
    module subroutine plan_finalize(self)
      type(plumb_plan), intent(inout) :: self
    end subroutine
  end interface

  interface  ! plumb_gradients.f90
    module subroutine backward_data_real32(device, dy, w, dx, mask, bias, stride, dilation, padding, &
        groups, activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real32), intent(in), contiguous, target :: dy(..), w(..)
      real(real32), intent(inout), contiguous, target :: dx(..)
      real(real32), intent(in), contiguous, target, optional :: mask(..)
      real(real32), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: accumulate
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine backward_data_real64(device, dy, w, dx, mask, bias, stride, dilation, padding, &
        groups, activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real64), intent(in), contiguous, target :: dy(..), w(..)
      real(real64), intent(inout), contiguous, target :: dx(..)
      real(real64), intent(in), contiguous, target, optional :: mask(..)
      real(real64), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: accumulate
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine backward_weights_real32(device, x, dy, dw, db, mask, stride, dilation, padding, &
        groups, math, deterministic, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real32), intent(in), contiguous, target :: x(..), dy(..)
      real(real32), intent(inout), contiguous, target :: dw(..)
      real(real32), intent(in), contiguous, target, optional :: mask(..)
      real(real32), intent(inout), contiguous, target, optional :: db(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, math
      logical, intent(in), optional :: accumulate, deterministic
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine backward_weights_real64(device, x, dy, dw, db, mask, stride, dilation, padding, &
        groups, math, deterministic, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real64), intent(in), contiguous, target :: x(..), dy(..)
      real(real64), intent(inout), contiguous, target :: dw(..)
      real(real64), intent(in), contiguous, target, optional :: mask(..)
      real(real64), intent(inout), contiguous, target, optional :: db(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, math
      logical, intent(in), optional :: accumulate, deterministic
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine transpose_real32(device, x, w, y, bias, stride, dilation, padding, &
        groups, activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real32), intent(in), contiguous, target :: x(..), w(..)
      real(real32), intent(inout), contiguous, target :: y(..)
      real(real32), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: accumulate
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
    module subroutine transpose_real64(device, x, w, y, bias, stride, dilation, padding, &
        groups, activation, math, status, message, boundary, accumulate, axes, reproducible)
      type(plumb_device), intent(in) :: device
      real(real64), intent(in), contiguous, target :: x(..), w(..)
      real(real64), intent(inout), contiguous, target :: y(..)
      real(real64), intent(in), contiguous, target, optional :: bias(:)
      integer, intent(in), optional :: stride(..), dilation(..), padding(..), boundary(..), axes
      integer, intent(in), optional :: groups, activation, math
      logical, intent(in), optional :: accumulate
      logical, intent(in), optional :: reproducible  !< the bits that are specified
      integer, intent(out), optional :: status
      character(*), intent(inout), optional :: message
    end subroutine
  end interface

end module plumb
