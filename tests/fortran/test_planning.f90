! What a plan is made of, what it says, and what it keeps alive.
module test_planning
  use, intrinsic :: iso_c_binding, only: c_null_ptr
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use plumb
  use plumb_case
  implicit none
  private
  public :: options, explanations, lifetimes

contains

  subroutine options()
    type(plumb_plan) :: plan
    character(:), allocatable :: name
    if (device%id() /= 'cpu') return  ! whose algorithms these are
    name = 'cpu.conv.im2col.fp64'
    call plan%create(device, x_shape, [3, 2, 6, 4], algorithm=name//'  ', math=plumb_fp64, &
      deterministic=.true.)
    call check(plan%algorithm() == name, 'the algorithm asked for: '//plan%algorithm())
    call plan%create(device, x_shape, [3, 2, 6, 4], workspace_limit_bytes=0_int64, &
      algorithm=name, status=status, message=message)
    call check(status == plumb_unsupported .and. index(message, 'workspace') > 0, &
      'a limit of workspace: '//message)
  end subroutine

  !> What each algorithm says: those of fp32 refuse a caller who asks for fp64, and say how to have them.
  subroutine explanations()
    type(plumb_plan) :: plan
    type(plumb_candidate), allocatable :: all(:)
    integer :: i, chosen, refused
    call plan%explain(all, status, message)
    call check(status == plumb_invalid_argument .and. size(all) == 0, 'no plan to explain: '//message)
    call plan%create(device, x_shape, [3, 2, 6, 4], math=plumb_fp64)
    call plan%explain(all)
    chosen = 0
    refused = 0
    do i = 1, size(all)
      if (all(i)%chosen) then
        chosen = chosen + 1
        call check(all(i)%algorithm == plan%algorithm(), 'chosen: '//all(i)%algorithm)
        call check(all(i)%reason == 'none' .and. all(i)%sentence == '' .and. all(i)%remedy == '', &
          'what is chosen can run')
        call check(all(i)%error_class == plumb_fp64 .and. all(i)%deterministic, 'its class')
        call check(all(i)%estimate_seconds > 0, 'its estimate')
        call check(all(i)%workspace_bytes == plan%workspace_bytes(), 'its workspace')
      else if (all(i)%reason == 'math') then
        refused = refused + 1
        call check(all(i)%error_class /= plumb_fp64 .and. index(all(i)%sentence, 'fp64') > 0 .and. &
          index(all(i)%remedy, 'math') > 0, all(i)%sentence//': '//all(i)%remedy)
        call check(all(i)%estimate_seconds > 0, 'only the caller refuses it')
      end if
    end do
    call check(chosen == 1, 'one algorithm is chosen')
    call check(refused > 0, 'algorithms of fp32 are refused')
  end subroutine

  !> Devices are shared by assignment, and everything keeps what it needs of its device.
  subroutine lifetimes()
    type(plumb_device) :: first, second
    type(plumb_array), allocatable :: array
    type(plumb_queue) :: own
    real(real64) :: back(11, 9, 6, 2)
    call first%open(device%id())
    second = first
    call first%close()
    call check(first%id() == '', 'a closed device has no name')
    call check(second%id() == device%id(), 'assignment shares a device')
    allocate (array)
    call array%create(second, shape(x), plumb_f64)
    call own%create(second)
    call second%close()
    back = 0
    call array%upload(own, x)
    call array%download(own, back)
    call check(all(back == x), 'an array outlives the handle of its device')
    deallocate (array)
    call own%create(device, c_null_ptr)  ! the caller's stream: the default one
    call own%synchronize()
  end subroutine

end module test_planning
