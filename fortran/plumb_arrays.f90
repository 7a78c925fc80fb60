! Arrays in a device's memory, from Fortran.
submodule (plumb) plumb_arrays
  implicit none
  integer(c_int32_t), parameter :: wrong = int(plumb_invalid_argument, c_int32_t)

contains

  module procedure array_create
    integer, parameter :: bytes_of(0:3) = [4, 8, 2, 2]
    integer(c_int32_t) :: code
    call release(self)
    self%dtype = plumb_f32
    if (present(dtype)) self%dtype = dtype
    if (self%dtype < 0 .or. self%dtype > 3) then
      call conclude(wrong, status, message, &
        'array: a kind that is none of plumb_f32, plumb_f64, plumb_f16, plumb_bf16')
      return
    end if
    if (any(extents < 0) .or. product(real(extents, real64)) * 8 >= real(huge(0_int64), real64)) then
      call conclude(wrong, status, message, 'array: a negative extent, or too many elements')
      return
    end if
    self%extents = int(extents, int64)
    self%device = device
    self%bytes = product(self%extents) * bytes_of(self%dtype)
    code = plumb_allocate_c(device%handle, self%bytes, device_memory, self%memory)
    call conclude(code, status, message)
  end procedure

  module procedure array_address
    memory = self%memory
  end procedure

  module procedure array_shape
    extents = int(self%extents)
  end procedure

  module procedure upload_real32
    call transfer_array(self, queue, plumb_f32, int(shape(from), int64), c_loc(from), .true., &
      status, message, at)
  end procedure

  module procedure upload_real64
    call transfer_array(self, queue, plumb_f64, int(shape(from), int64), c_loc(from), .true., &
      status, message, at)
  end procedure

  module procedure download_real32
    call transfer_array(self, queue, plumb_f32, int(shape(to), int64), c_loc(to), .false., &
      status, message, at)
  end procedure

  module procedure download_real64
    call transfer_array(self, queue, plumb_f64, int(shape(to), int64), c_loc(to), .false., &
      status, message, at)
  end procedure

  !> Waits for the copy: Fortran may have passed a copy of the array, which is gone on return.
  subroutine transfer_array(self, queue, dtype, extents, data, to_device, status, message, at)
    class(plumb_array), intent(in) :: self
    type(plumb_queue), intent(in) :: queue
    integer, intent(in) :: dtype
    integer(int64), intent(in) :: extents(:)
    type(c_ptr), intent(in) :: data
    logical, intent(in) :: to_device
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    integer, intent(in), optional :: at
    integer(c_size_t) :: begin, bytes
    type(c_ptr) :: memory
    integer(c_int32_t) :: code
    logical :: fits
    begin = 0
    bytes = self%bytes
    fits = allocated(self%extents)
    if (fits) fits = self%dtype == dtype
    if (fits .and. present(at)) then
      call find_planes(self, extents, at, begin, bytes, fits)
    else if (fits) then
      fits = size(self%extents) == size(extents)
      if (fits) fits = all(self%extents == extents)
    end if
    if (.not. fits) then
      call conclude(wrong, status, message, &
        'array: the array on the host has another shape or kind than the one on the device: '// &
        text(extents)//' on the host, '//device_shape(self)//' on the device'//placed(at))
      return
    end if
    memory = transfer(transfer(self%memory, 0_c_intptr_t) + int(begin, c_intptr_t), memory)
    if (to_device) then
      code = plumb_copy_c(queue%handle, memory, data, bytes)
    else
      code = plumb_copy_c(queue%handle, data, memory, bytes)
    end if
    if (code == plumb_ok) code = plumb_queue_synchronize_c(queue%handle)
    call conclude(code, status, message)
  end subroutine

  !> Where the planes from the last index `at` on lie, as many as an array of `extents` has, or one
  !> where it has no such index.
  subroutine find_planes(self, extents, at, begin, bytes, fits)
    class(plumb_array), intent(in) :: self
    integer(int64), intent(in) :: extents(:)
    integer, intent(in) :: at
    integer(c_size_t), intent(inout) :: begin, bytes
    logical, intent(out) :: fits
    integer(int64) :: planes
    integer :: others
    others = size(self%extents) - 1
    fits = size(extents) == others .or. size(extents) == others + 1
    if (fits) fits = all(extents(:others) == self%extents(:others))
    if (.not. fits) return
    planes = product(extents(others + 1:))
    fits = at >= 1 .and. at - 1 + planes <= self%extents(others + 1)
    if (.not. fits .or. self%bytes == 0) return
    bytes = self%bytes / self%extents(others + 1)
    begin = (at - 1) * bytes
    bytes = planes * bytes
  end subroutine

  !> What a message says of a last index that was given.
  function placed(at) result(shown)
    integer, intent(in), optional :: at
    character(:), allocatable :: shown
    character(20) :: number
    shown = ''
    if (.not. present(at)) return
    write (number, '(i0)') at
    shown = ', from the last index '//trim(number)//' on'
  end function

  !> The shape of the array on the device, for a message.
  function device_shape(self) result(shown)
    class(plumb_array), intent(in) :: self
    character(:), allocatable :: shown
    shown = 'none'
    if (allocated(self%extents)) shown = text(self%extents)
  end function

  module procedure array_assign
    if (c_associated(from%memory) .or. c_associated(to%memory)) &
      error stop 'plumb: a plumb_array cannot be assigned; pass it as an argument'
  end procedure

  subroutine release(self)
    class(plumb_array), intent(inout) :: self
    integer(c_int32_t) :: code
    if (c_associated(self%memory)) &
      code = plumb_deallocate_c(self%device%handle, self%memory, self%bytes, device_memory)
    self%memory = c_null_ptr
    self%bytes = 0
    if (allocated(self%extents)) deallocate (self%extents)
  end subroutine

  module procedure array_finalize
    call release(self)
  end procedure

end submodule plumb_arrays
