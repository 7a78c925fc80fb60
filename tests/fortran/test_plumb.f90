! The Fortran module against plain loops, in every way of calling it. Values are small integers, so
! that every order of summation gives the same bits. Prints what failed, and stops with an error.
program test_plumb
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_loc, c_f_pointer
  use, intrinsic :: iso_fortran_env, only: real32, real64, int64
  use plumb
  implicit none

  ! 2 images of 6 channels, 11 wide and 9 high; 4 filters, 3 wide and 2 high, in 2 groups.
  integer, parameter :: x_shape(4) = [11, 9, 6, 2], w_shape(4) = [3, 2, 3, 4], groups = 2
  integer, parameter :: stride(2) = [2, 1], dilation(2) = [1, 3], padding(4) = [2, 1, 0, 3]
  integer, parameter :: y_shape(4) = [6, 10, 4, 2]
  real(real64) :: x(11, 9, 6, 2), w(3, 2, 3, 4), bias(4), expected(6, 10, 4, 2)
  type(plumb_device) :: device
  type(plumb_queue) :: queue
  integer :: failures = 0, status
  character(400) :: message = ''

  call device%open(status=status, message=message)
  call check(status == plumb_ok .and. message == '', 'a device opens: '//message)
  call queue%create(device)
  call integers(x, 7)
  call integers(w, 5)
  bias = [1, -2, 3, 0]
  call convolve(x, w, bias, expected)
  call check(count(expected > 0) > 50 .and. count(expected == 0) > 50, 'the ReLU matters')

  call arrays_of_fortran()
  call arrays_on_the_device()
  call fields()
  call sections()
  call options()
  call explanations()
  call refusals()
  call one_number()
  call overlaps()
  call lifetimes()
  if (failures > 0) error stop 'the Fortran module is not right'
  print '(2a)', 'all is well on ', device%id()

contains

  subroutine check(truth, what)
    logical, intent(in) :: truth
    character(*), intent(in) :: what
    if (truth) return
    print '(2a)', 'FAILED: ', what
    failures = failures + 1
  end subroutine

  !> Small integers without a pattern.
  subroutine integers(values, seed)
    real(real64), intent(out) :: values(..)
    integer, intent(in) :: seed
    integer :: i, state
    state = seed
    select rank (values)
    rank (4)
      block
        real(real64) :: flat(size(values))
        do i = 1, size(flat)
          state = mod(state * 1103 + 12345, 65536)
          flat(i) = mod(state / 16, 7) - 3
        end do
        values = reshape(flat, shape(values))
      end block
    rank default
      error stop 'integers: rank 4 only'
    end select
  end subroutine

  !> What the module must compute, as its first lines say it.
  subroutine convolve(x, w, bias, y)
    real(real64), intent(in) :: x(:, :, :, :), w(:, :, :, :), bias(:)
    real(real64), intent(out) :: y(:, :, :, :)
    integer :: n, k, p, q, c, r, s, i, j, first
    do n = 1, size(y, 4)
      do k = 1, size(y, 3)
        first = (k - 1) / (size(w, 4) / groups) * size(w, 3)
        do p = 1, size(y, 2)
          do q = 1, size(y, 1)
            y(q, p, k, n) = bias(k)
            do c = 1, size(w, 3)
              do r = 1, size(w, 2)
                do s = 1, size(w, 1)
                  i = (q - 1) * stride(1) + (s - 1) * dilation(1) - padding(1) + 1
                  j = (p - 1) * stride(2) + (r - 1) * dilation(2) - padding(2) + 1
                  if (i < 1 .or. i > size(x, 1) .or. j < 1 .or. j > size(x, 2)) cycle
                  y(q, p, k, n) = y(q, p, k, n) + x(i, j, first + c, n) * w(s, r, c, k)
                end do
              end do
            end do
            y(q, p, k, n) = max(y(q, p, k, n), 0._real64)
          end do
        end do
      end do
    end do
  end subroutine

  subroutine planned(plan, dtype)
    type(plumb_plan), intent(inout) :: plan
    integer, intent(in) :: dtype
    call plan%create(device, x_shape, w_shape, dtype, stride=stride, dilation=dilation, &
      padding=padding, groups=groups, bias=.true., activation=plumb_relu)
  end subroutine

  subroutine arrays_of_fortran()
    type(plumb_plan) :: single, double
    real(real32) :: x32(11, 9, 6, 2), w32(3, 2, 3, 4), y32(6, 10, 4, 2)
    real(real64) :: y64(6, 10, 4, 2)
    x32 = real(x, real32)
    w32 = real(w, real32)
    y32 = -1
    y64 = -1
    call plumb_conv(device, x32, w32, y32, real(bias, real32), stride, dilation, padding, groups, &
      plumb_relu)
    call check(all(y32 == real(expected, real32)), 'plumb_conv in real32')
    call plumb_conv(device, x, w, y64, bias, stride, dilation, padding, groups, plumb_relu)
    call check(all(y64 == expected), 'plumb_conv in real64')

    call planned(single, plumb_f32)
    call planned(double, plumb_f64)
    call check(all(single%y_shape() == y_shape), 'y_shape')
    call check(index(single%algorithm(), '.conv.') > 0, 'algorithm: '//single%algorithm())
    call check(single%workspace_bytes() >= 0, 'workspace_bytes')
    y32 = -1
    y64 = -1
    call single%execute(queue, x32, w32, y32, real(bias, real32), status=status, message=message)
    if (device%id() /= 'cpu') then
      call check(status == plumb_invalid_argument .and. index(message, 'on the host') > 0, &
        'arrays of the host are refused by a plan for another device')
      return
    end if
    call check(all(y32 == real(expected, real32)), 'execute on arrays of real32: '//message)
    call double%execute(queue, x, w, y64, bias)
    call check(all(y64 == expected), 'execute on arrays of real64')
  end subroutine

  subroutine arrays_on_the_device()
    type(plumb_plan) :: plan
    type(plumb_array) :: dx, dw, db, dy, scratch
    real(real64) :: y(6, 10, 4, 2)
    call planned(plan, plumb_f64)
    call dx%create(device, shape(x), plumb_f64)
    call dw%create(device, shape(w), plumb_f64)
    call db%create(device, shape(bias), plumb_f64)
    call dy%create(device, plan%y_shape(), plumb_f64)
    call check(all(dy%shape() == y_shape), 'the shape of a plumb_array')
    call dx%upload(queue, x)
    call dw%upload(queue, w)
    call db%upload(queue, bias)
    call plan%execute(queue, dx, dw, dy, db)
    y = -1
    call dy%download(queue, y)
    call check(all(y == expected), 'execute on plumb_arrays')

    y = -1
    call dy%upload(queue, y)
    call scratch%create(device, [max(1, int(plan%workspace_bytes() / 4))], plumb_f32)
    call plan%execute(queue, dx%address(), dw%address(), dy%address(), db%address(), &
      scratch%address())
    call dy%download(queue, y)
    call check(all(y == expected), 'execute on addresses, with workspace of the caller''s')
    call packed(plan, dx, dw, db, dy)
  end subroutine

  !> Filters packed once, after which w is spoilt.
  subroutine packed(plan, dx, dw, db, dy)
    type(plumb_plan), intent(in) :: plan
    type(plumb_array), intent(in) :: dx, db
    type(plumb_array), intent(inout) :: dw, dy
    type(plumb_filters) :: filters, none
    type(plumb_array) :: scratch
    real(real64) :: y(6, 10, 4, 2), spoilt(3, 2, 3, 4)
    call plan%pack(queue, dw, filters)
    spoilt = -99
    call dw%upload(queue, spoilt)
    y = -1
    call dy%upload(queue, y)
    call plan%execute(queue, dx, filters, dy, db)
    call dy%download(queue, y)
    call check(all(y == expected), 'execute with packed filters')

    y = -1
    call dy%upload(queue, y)
    call check(plan%packed_workspace_bytes() <= plan%workspace_bytes(), 'less workspace')
    call scratch%create(device, [max(1, int(plan%packed_workspace_bytes() / 4))], plumb_f32)
    call plan%execute(queue, dx%address(), filters, dy%address(), db%address(), scratch%address())
    call dy%download(queue, y)
    call check(all(y == expected), 'packed filters and addresses')

    call plan%execute(queue, dx, none, dy, db, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'filters') > 0, message)
    call plan%execute(queue, dx, filters, dy, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%pack(queue, dx, filters, status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'w is') > 0, message)
  end subroutine

  !> Indices left out: one channel, one image.
  subroutine fields()
    real(real32) :: u(5, 4), blur(3, 1), v(3, 4)
    integer :: i, j
    do concurrent(i=1:5, j=1:4)
      u(i, j) = i + 10 * j
    end do
    blur(:, 1) = [1, 0, 2]
    call plumb_conv(device, u, blur, v)
    call check(all(v == u(1:3, :) + 2 * u(3:5, :)), 'a field and a row of weights')
  end subroutine

  !> Sections that are not contiguous: Fortran makes copies of them, there and back.
  subroutine sections()
    real(real64) :: wide(22, 9, 6, 2), y(6, 10, 4, 4)
    type(plumb_array) :: dy
    wide = -9
    wide(::2, :, :, :) = x
    y = -1
    call plumb_conv(device, wide(::2, :, :, :), w, y(:, :, :, 2:4:2), bias, stride, dilation, &
      padding, groups, plumb_relu)
    call check(all(y(:, :, :, 2:4:2) == expected) .and. all(y(:, :, :, 1:3:2) == -1), 'sections')
    call dy%create(device, [6, 10, 4, 2], plumb_f64)
    call dy%upload(queue, y(:, :, :, 2:4:2))
    y = 0
    call dy%download(queue, y(:, :, :, 1:3:2))
    call check(all(y(:, :, :, 1:3:2) == expected) .and. all(y(:, :, :, 2:4:2) == 0), &
      'sections to the device and back')
  end subroutine

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

  subroutine refusals()
    type(plumb_device) :: none
    type(plumb_plan) :: plan
    type(plumb_array) :: array
    real(real64) :: y(6, 10, 4, 2), wrong(6, 11, 4, 2)
    real(real32) :: y32(6, 10, 4, 2)
    call none%open('abacus', status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'abacus') > 0, &
      'a device that is none: '//message)
    call check(plumb_status_name(status) == 'invalid_argument', plumb_status_name(status))
    call check(none%id() == '', 'what was not opened has no name')
    call none%open('cpu:7', status)
    call check(status == plumb_device_unavailable, 'a device that is not there')
    call plan%create(none, x_shape, [3, 2, 6, 4], status=status)
    call check(status == plumb_invalid_argument, 'a plan without a device')
    call plan%execute(queue, x, w, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'created') > 0, message)
    call check(plumb_device_count('cpu') == 1, 'one cpu')
    call check(plumb_device_count('abacus') == 0, 'no abacus')

    call plan%create(device, x_shape, [3, 2, 5, 4], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, '(3, 2, 5, 4)') > 0, message)
    call plan%create(device, x_shape, [12, 2, 6, 4], status=status, message=message)
    call check(status == plumb_invalid_argument, 'a filter wider than the image')
    call plan%create(device, x_shape, [3, 2, 6, 4], padding=[1, 2, 3], status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'padding') > 0, message)
    call plan%create(device, [x_shape, 1], [3, 2, 6, 4], status=status)
    call check(status == plumb_invalid_argument, 'five indices')

    call planned(plan, plumb_f64)
    call plan%execute(queue, x, w, wrong, bias, status, message)
    call check(status == plumb_invalid_argument .and. index(message, '(6, 11, 4, 2)') > 0, message)
    call plan%execute(queue, x, w, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%execute(queue, x, w, y, bias(1:3), status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'bias') > 0, message)
    call plan%execute(queue, real(x, real32), real(w, real32), y32, real(bias, real32), status, &
      message)
    call check(status == plumb_invalid_argument .and. index(message, 'kind') > 0, message)
    call plumb_conv(device, x, w, wrong, bias, stride, dilation, padding, groups, status=status)
    call check(status == plumb_invalid_argument, 'a y that does not fit')
    call shapes_as_fortran_has_them()

    call array%create(device, [6, -1], status=status)
    call check(status == plumb_invalid_argument, 'a negative extent')
    call array%create(device, [huge(0), huge(0), huge(0)], status=status)
    call check(status == plumb_invalid_argument, 'more elements than can be counted')
    call array%create(device, [6, 7], 4, status)
    call check(status == plumb_invalid_argument, 'a kind that is none')
    call array%create(device, [6, 10, 4, 2], plumb_f64)
    call array%upload(queue, wrong, status, message)
    call check(status == plumb_invalid_argument .and. index(message, 'shape') > 0, message)
    call array%upload(queue, y32, status)
    call check(status == plumb_invalid_argument, 'another kind')
  end subroutine

  !> C says [n, c, h, w]; no message of Fortran's does.
  subroutine shapes_as_fortran_has_them()
    real(real64) :: y(6, 10, 4, 2), wrong(6, 11, 4, 2)
    type(plumb_plan) :: plan
    type(plumb_array) :: array
    call plumb_conv(device, x, w, wrong, bias, stride, dilation, padding, groups, status=status, &
      message=message)
    call check(index(message, '(6, 11, 4, 2)') > 0 .and. index(message, '(6, 10, 4, 2)') > 0 .and. &
      index(message, '[') == 0, message)
    call plumb_conv(device, x, w, y, bias, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'groups=2 would fit') > 0 .and. &
      index(message, '(11, 9, 6, 2)') > 0 .and. index(message, '(3, 2, 3, 4)') > 0, message)
    call plan%create(device, x_shape, w_shape, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'groups=2 would fit') > 0, message)
    call plan%create(device, x_shape, [3, 2, 5, 4], status=status, message=message)
    call check(index(message, 'would fit') == 0, message)
    call array%create(device, [6, 10, 4, 2], plumb_f64)
    call array%upload(queue, wrong, status, message)
    call check(index(message, '(6, 11, 4, 2)') > 0 .and. index(message, '(6, 10, 4, 2)') > 0, message)
  end subroutine

  !> One number is both directions and every side; a number and an array of one are the same.
  subroutine one_number()
    real(real64) :: wide(5, 5, 1, 1), mean(3, 3), y(5, 5), strided(3, 3), pairs(3, 5)
    type(plumb_plan) :: plan
    integer :: i, j
    wide = 1
    mean = 1
    y = -1
    call plumb_conv(device, wide, mean, y, padding=1)
    call check(all(y(2:4, 2:4) == 9) .and. all(y(::4, ::4) == 4) .and. all(y(2:4, ::4) == 6) .and. &
      all(y(::4, 2:4) == 6), 'one number pads every side')
    y = -1
    call plumb_conv(device, wide, mean, y, padding=[1])
    call check(all(y(::4, ::4) == 4), 'an array of one number')
    do concurrent(i=1:5, j=1:5)
      wide(i, j, 1, 1) = i + 10 * j
    end do
    mean = 0
    mean(2, 2) = 1
    call plumb_conv(device, wide, mean, strided, stride=2, padding=1)
    call check(all(strided == wide(::2, ::2, 1, 1)), 'one number strides both ways')
    call plumb_conv(device, wide, mean, pairs, stride=[2, 1], padding=[1, 1])
    call check(all(pairs == wide(::2, :, 1, 1)), 'two numbers are width and height, both sides')
    call plan%create(device, [9, 7], [3, 3], dilation=2)
    call check(all(plan%y_shape() == [5, 3, 1, 1]), 'one number dilates both ways')
    call plan%create(device, [9, 7], [3, 3], padding=[1, 2])
    call check(all(plan%y_shape() == [9, 9, 1, 1]), 'two paddings are both sides each')
    call plan%create(device, [9, 7], [3, 3], stride=[1, 2, 3], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'stride has (3) numbers') > 0, &
      message)
    call plan%create(device, [9, 7], [3, 3], dilation=reshape([1, 2], [1, 2]), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'dilation') > 0, message)
    call plan%create(device, [9, 7], [3, 3], padding=-1, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, '-1') > 0, message)
  end subroutine

  !> Results that would lie over what they are computed from.
  subroutine overlaps()
    type(plumb_plan) :: plan
    type(plumb_array) :: dx, dw
    real(real64), target :: field(5, 5), weights(3, 3), back(5, 5)
    field = 1
    weights = 1
    call plan%create(device, [5, 5], [3, 3], plumb_f64, padding=1)
    call dx%create(device, [5, 5], plumb_f64)
    call dw%create(device, [3, 3], plumb_f64)
    call dx%upload(queue, field)
    call dw%upload(queue, weights)
    call plan%execute(queue, dx%address(), dw%address(), dx%address(), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
    call check(index(message, '(5, 5, 1, 1) with strides (1, 5, 25, 25)') > 0 .and. &
      index(message, '[') == 0, message)
    call plan%execute(queue, dx%address(), dw%address(), dw%address(), status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps w') > 0, message)
    call plan%execute(queue, dx, dw, dx, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
    call dx%download(queue, back)
    call check(all(back == field), 'nothing was written over')
    call on_host(c_loc(field))
    call check(all(field == 1), 'nor on the host')
  end subroutine

  !> One array under two names, as a caller who breaks Fortran's rule would have it.
  subroutine on_host(same)
    type(c_ptr), intent(in) :: same
    real(real64), pointer, contiguous :: x(:, :), y(:, :)
    real(real64) :: weights(1, 1)
    weights = 2
    call c_f_pointer(same, x, [5, 5])
    call c_f_pointer(same, y, [5, 5])
    call plumb_conv(device, x, weights, y, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'y overlaps x') > 0, message)
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

end program test_plumb
