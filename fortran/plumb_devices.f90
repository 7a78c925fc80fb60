! Devices and queues from Fortran, and what becomes of handles that go out of scope.
submodule (plumb) plumb_devices
  implicit none

contains

  module procedure plumb_status_name
    name = text_of(plumb_status_name_c(int(status, c_int32_t)))
  end procedure

  module procedure plumb_version
    version = text_of(plumb_version_c())
  end procedure

  module procedure plumb_device_count
    integer(c_int32_t) :: devices, code
    code = plumb_device_count_c(trim(backend)//c_null_char, devices)
    count = devices
  end procedure

  module procedure device_open
    character(:), allocatable :: name, libraries
    integer(c_int32_t) :: code
    call self%close()
    name = ''
    if (present(spec)) name = trim(spec)
    libraries = ''
    if (present(providers)) libraries = trim(providers)
    code = plumb_device_open_c(name//c_null_char, c_null_ptr, libraries//c_null_char, self%handle)
    call conclude(code, status, message)
  end procedure

  module procedure device_close
    call plumb_device_close_c(self%handle)
    self%handle = c_null_ptr
  end procedure

  module procedure device_id
    type(device_info_c) :: info
    integer(c_int32_t) :: code
    code = plumb_device_get_info_c(self%handle, info)
    text = text_of(info%id)
  end procedure

  module procedure device_name
    type(device_info_c) :: info
    integer(c_int32_t) :: code
    code = plumb_device_get_info_c(self%handle, info)
    text = text_of(info%name)
  end procedure

  module procedure device_why
    type(device_info_c) :: info
    integer(c_int32_t) :: code
    code = plumb_device_get_info_c(self%handle, info)
    text = text_of(info%why)
  end procedure

  module procedure device_assign
    type(c_ptr) :: handle
    handle = c_null_ptr
    if (c_associated(from%handle)) call conclude(plumb_device_copy_c(from%handle, handle))
    call to%close()
    to%handle = handle
  end procedure

  module procedure device_finalize
    call self%close()
  end procedure

  module procedure queue_create
    integer(c_int32_t) :: code
    call plumb_queue_destroy_c(self%handle)
    if (present(stream)) then
      code = plumb_queue_wrap_c(device%handle, stream, self%handle)
    else
      code = plumb_queue_create_c(device%handle, self%handle)
    end if
    call conclude(code, status, message)
  end procedure

  module procedure device_c_handle
    handle = self%handle
  end procedure

  module procedure device_adopt
    call self%close()
    self%handle = handle
  end procedure

  module procedure queue_c_handle
    handle = self%handle
  end procedure

  module procedure queue_synchronize
    call conclude(plumb_queue_synchronize_c(self%handle), status, message)
  end procedure

  module procedure queue_assign
    if (c_associated(from%handle) .or. c_associated(to%handle)) &
      error stop 'plumb: a plumb_queue cannot be assigned; pass it as an argument'
  end procedure

  module procedure queue_finalize
    call plumb_queue_destroy_c(self%handle)
    self%handle = c_null_ptr
  end procedure

  module procedure filters_assign
    if (c_associated(from%handle) .or. c_associated(to%handle)) &
      error stop 'plumb: plumb_filters cannot be assigned; pass them as an argument'
  end procedure

  module procedure filters_finalize
    call plumb_packed_filters_destroy_c(self%handle)
    self%handle = c_null_ptr
  end procedure

  module procedure plan_assign
    if (c_associated(from%handle) .or. c_associated(to%handle)) &
      error stop 'plumb: a plumb_plan cannot be assigned; pass it as an argument'
  end procedure

  module procedure plan_finalize
    call plumb_plan_destroy_c(self%handle)
    self%handle = c_null_ptr
  end procedure

end submodule plumb_devices
