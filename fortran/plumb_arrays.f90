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
    call transfer_array(self, queue, plumb_f32, int(shape(from), int64), self%memory, c_loc(from), &
      status, message)
  end procedure

  module procedure upload_real64
    call transfer_array(self, queue, plumb_f64, int(shape(from), int64), self%memory, c_loc(from), &
      status, message)
  end procedure

  module procedure download_real32
    call transfer_array(self, queue, plumb_f32, int(shape(to), int64), c_loc(to), self%memory, &
      status, message)
  end procedure

  module procedure download_real64
    call transfer_array(self, queue, plumb_f64, int(shape(to), int64), c_loc(to), self%memory, &
      status, message)
  end procedure

  !> Waits for the copy: Fortran may have passed a copy of the array, which is gone on return.
  subroutine transfer_array(self, queue, dtype, extents, to, from, status, message)
    class(plumb_array), intent(in) :: self
    type(plumb_queue), intent(in) :: queue
    integer, intent(in) :: dtype
    integer(int64), intent(in) :: extents(:)
    type(c_ptr), intent(in) :: to, from
    integer, intent(out), optional :: status
    character(*), intent(inout), optional :: message
    integer(c_int32_t) :: code
    logical :: same
    same = allocated(self%extents)
    if (same) same = self%dtype == dtype .and. size(self%extents) == size(extents)
    if (same) same = all(self%extents == extents)
    if (.not. same) then
      call conclude(wrong, status, message, &
        'array: the array on the host has another shape or kind than the one on the device: '// &
        text(extents)//' on the host, '//device_shape(self)//' on the device')
      return
    end if
    code = plumb_copy_c(queue%handle, to, from, self%bytes)
    if (code == plumb_ok) code = plumb_queue_synchronize_c(queue%handle)
    call conclude(code, status, message)
  end subroutine

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
