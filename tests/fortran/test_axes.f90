! Images of one axis and of three, what lies beyond their edges, and results that are added to what was
! there, against plain loops.
module test_axes
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use plumb
  use plumb_case
  implicit none
  private
  public :: three_axes, boundaries, plain_fields, planes, axes_refused

  integer, parameter :: extents(3) = [7, 5, 4], outputs(3) = [4, 6, 5]
  integer, parameter :: step(3) = [2, 1, 1], apart(3) = [1, 1, 2], around(6) = [1, 1, 1, 1, 2, 2]
  integer, parameter :: beyond(3) = [plumb_clamp, plumb_reflect, plumb_periodic]

contains

  !> The index that one beyond the edge shows, or 0.
  pure integer function shown(boundary, index, extent) result(at)
    integer, intent(in) :: boundary, index, extent
    at = index
    if (index >= 1 .and. index <= extent) return
    select case (boundary)
    case (plumb_periodic)
      at = modulo(index - 1, extent) + 1
    case (plumb_reflect)
      at = merge(2 - index, 2 * extent - index, index < 1)
    case (plumb_symmetric)
      at = merge(1 - index, 2 * extent + 1 - index, index < 1)
    case (plumb_clamp)
      at = merge(1, extent, index < 1)
    case default
      at = 0
    end select
  end function

  !> relu(bias + y + convolution) of one channel of filters, x(w, h, d, c), w(s, r, t, c).
  subroutine by_loops(x, w, bias, y)
    real(real64), intent(in) :: x(:, :, :, :), w(:, :, :, :), bias
    real(real64), intent(inout) :: y(:, :, :)
    integer :: q, p, z, s, r, t, at(3), axis
    do z = 1, size(y, 3)
      do p = 1, size(y, 2)
        do q = 1, size(y, 1)
          y(q, p, z) = y(q, p, z) + bias
          do t = 1, size(w, 3)
            do r = 1, size(w, 2)
              do s = 1, size(w, 1)
                at = ([q, p, z] - 1) * step + ([s, r, t] - 1) * apart - around(:3) + 1
                at = [(shown(beyond(axis), at(axis), extents(axis)), axis=1, 3)]
                if (any(at == 0)) cycle
                y(q, p, z) = y(q, p, z) + dot_product(x(at(1), at(2), at(3), :), w(s, r, t, :))
              end do
            end do
          end do
          y(q, p, z) = max(y(q, p, z), 0._real64)
        end do
      end do
    end do
  end subroutine

  subroutine three_axes()
    real(real64) :: u(7, 5, 4, 4, 2), f(3, 3, 2, 2, 6), v(4, 6, 5, 6, 2), before(4, 6, 5, 6, 2)
    real(real64) :: expected(4, 6, 5, 6, 2)
    real(real32) :: v32(4, 6, 5, 6, 2)
    real(real64), parameter :: offsets(6) = [1, -2, 0, 3, -1, 2]
    type(plumb_plan) :: plan
    type(plumb_array) :: du, df, db, dv
    type(plumb_filters) :: filters
    integer :: n, k, c
    call any_integers(u, 3)
    call any_integers(f, 11)
    call any_integers(before, 17)
    expected = before
    do n = 1, 2
      do k = 1, 6
        c = (k - 1) / 3 * 2
        call by_loops(u(:, :, :, c + 1:c + 2, n), f(:, :, :, :, k), offsets(k), &
          expected(:, :, :, k, n))
      end do
    end do
    call check(count(expected > 0) > 100 .and. any(expected /= before), 'something is computed')
    v = before
    call plumb_conv(device, u, f, v, offsets, step, apart, around, 2, plumb_relu, boundary=beyond, &
      accumulate=.true.)
    call check(all(v == expected), 'plumb_conv of rank 5 in real64')
    v32 = real(before, real32)
    call plumb_conv(device, real(u, real32), real(f, real32), v32, real(offsets, real32), step, &
      apart, around, 2, plumb_relu, boundary=beyond, accumulate=.true.)
    call check(all(v32 == real(expected, real32)), 'plumb_conv of rank 5 in real32')

    call plan%create(device, shape(u), shape(f), plumb_f64, step, apart, around, 2, .true., &
      plumb_relu, boundary=beyond, accumulate=.true.)
    call check(all(plan%y_shape() == [outputs, 6, 2]), 'five extents of y')
    call du%create(device, shape(u), plumb_f64)
    call df%create(device, shape(f), plumb_f64)
    call db%create(device, shape(offsets), plumb_f64)
    call dv%create(device, plan%y_shape(), plumb_f64)
    call du%upload(queue, u)
    call df%upload(queue, f)
    call db%upload(queue, offsets)
    call dv%upload(queue, before)
    call plan%execute(queue, du, df, dv, db)
    call dv%download(queue, v)
    call check(all(v == expected), 'a plan of rank 5')
    call plan%pack(queue, df, filters)
    call dv%upload(queue, before)
    call plan%execute(queue, du, filters, dv, db)
    call dv%download(queue, v)
    call check(all(v == expected), 'a plan of rank 5 with packed filters')
    if (device%id() /= 'cpu') return
    v = before
    call plan%execute(queue, u, f, v, offsets)
    call check(all(v == expected), 'a plan of rank 5 on arrays of Fortran')
  end subroutine

  subroutine any_integers(values, seed)
    real(real64), intent(out) :: values(:, :, :, :, :)
    integer, intent(in) :: seed
    real(real64) :: four(size(values, 1) * size(values, 2), size(values, 3), size(values, 4), &
      size(values, 5))
    call integers(four, seed)
    values = reshape(four, shape(values))
  end subroutine

  !> Each boundary of a row of five, by its numbers.
  subroutine boundaries()
    real(real64), parameter :: u(5) = [1, 2, 3, 4, 5], f(3) = [1, 10, 100]
    real(real64), parameter :: ends(2, 0:4) = &
      reshape([210, 54, 215, 154, 212, 454, 211, 554, 211, 554], [2, 5])
    real(real64) :: v(5), images(5, 1, 2), twice(5, 2, 2)
    type(plumb_plan) :: plan
    type(plumb_array) :: du, df, dv
    integer :: b
    do b = plumb_zeros, plumb_clamp
      v = -1
      call plumb_conv(device, u, f, v, padding=1, boundary=b)
      call check(all(v(2:4) == [321, 432, 543]) .and. all(v([1, 5]) == ends(:, b)), 'a boundary')
    end do
    ! Two images of one axis and one channel, and two filters.
    images(:, 1, 1) = u
    images(:, 1, 2) = 2 * u
    call plan%create(device, [5, 1, 2], [3, 1, 2], plumb_f64, padding=[1, 1], axes=1, &
      boundary=plumb_periodic)
    call check(all(plan%y_shape() == [5, 2, 2]), 'three extents of y')
    call du%create(device, [5, 1, 2], plumb_f64)
    call df%create(device, [3, 1, 2], plumb_f64)
    call dv%create(device, [5, 2, 2], plumb_f64)
    call du%upload(queue, images)
    call df%upload(queue, reshape([f, -f], [3, 1, 2]))
    call plan%execute(queue, du, df, dv)
    call dv%download(queue, twice)
    call check(all(twice(:, 1, 1) == [215, 321, 432, 543, 154]) .and. &
      all(twice(:, 2, :) == -twice(:, 1, :)) .and. all(twice(:, :, 2) == 2 * twice(:, :, 1)), &
      'images of one axis')
  end subroutine

  !> Three indices each are width, height and depth, unless they are channels as ever.
  subroutine plain_fields()
    real(real64) :: u(4, 5, 3), f(3, 3, 3), v(4, 5, 3), channels(4, 5, 1), flat(4, 5)
    real(real32) :: v32(4, 5, 3)
    integer :: i, j, k
    do concurrent(i=1:4, j=1:5, k=1:3)
      u(i, j, k) = i + 10 * j + 100 * k
    end do
    f = 0
    f(1, 3, 1) = 1
    f(2, 2, 2) = 1000
    v = -1
    call plumb_conv(device, u, f, v, padding=1, boundary=plumb_periodic)
    call check(all(v == 1000 * u + cshift(cshift(cshift(u, -1, 1), 1, 2), -1, 3)), &
      'a periodic field in three dimensions')
    v32 = -1
    call plumb_conv(device, real(u, real32), real(f, real32), v32, padding=1, &
      boundary=plumb_periodic)
    call check(all(v32 == real(v, real32)), 'the same in real32')
    call plumb_conv(device, u, f, channels, padding=[1, 1], boundary=plumb_periodic)
    call plumb_conv(device, u, f, flat, padding=1, boundary=plumb_periodic)
    call check(all(channels(:, :, 1) == flat) .and. &
      all(flat == 1000 * u(:, :, 2) + cshift(cshift(u(:, :, 1), -1, 1), 1, 2)), 'three channels')
    call plumb_conv(device, u(:, :, 1), f(:, :, 2), flat, padding=1, &
      boundary=[plumb_clamp, plumb_periodic])
    call check(all(flat == 1000 * u(:, :, 1)), 'a field in two dimensions')
  end subroutine

  !> Planes of an array on the device by themselves.
  subroutine planes()
    real(real64) :: u(3, 2, 5), plane(3, 2), pair(3, 2, 2)
    type(plumb_array) :: array
    integer :: i
    u = reshape([(i, i=1, 30)], shape(u))
    call array%create(device, shape(u), plumb_f64)
    call array%upload(queue, u)
    call array%download(queue, plane, at=4)
    call check(all(plane == u(:, :, 4)), 'one plane from the device')
    call array%download(queue, pair, at=4)
    call check(all(pair == u(:, :, 4:)), 'two planes from the device')
    call array%upload(queue, -plane, at=3)
    call array%upload(queue, 10 * pair, at=1)
    u(:, :, :3) = 0
    call array%download(queue, u)
    call check(all(u(:, :, 1:2) == 10 * u(:, :, 4:5)) .and. all(u(:, :, 3) == -u(:, :, 4)) .and. &
      all(u(:, :, 4) == reshape([(i, i=19, 24)], [3, 2])), 'planes to the device')
    call array%download(queue, pair, status, message, at=5)
    call check(status == plumb_invalid_argument .and. index(message, 'index 5 on') > 0 .and. &
      index(message, '(3, 2, 2) on the host, (3, 2, 5)') > 0, message)
    call array%download(queue, plane, status, message, at=0)
    call check(status == plumb_invalid_argument, 'a plane before the first')
    call array%upload(queue, u(:, 1, :), status, message, at=1)
    call check(status == plumb_invalid_argument, 'a plane of another shape')
  end subroutine

  subroutine axes_refused()
    type(plumb_plan) :: plan
    type(plumb_candidate), allocatable :: all(:)
    real(real64) :: u(4, 4, 4), f(3, 3, 3), v(2, 2, 2)
    integer :: i
    u = 1
    f = 1
    call plan%create(device, [9, 7, 5], [3, 3, 3], axes=4, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'axes is (4)') > 0, message)
    call plan%create(device, [9, 7, 5], [3, 3, 3], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'axes=3') > 0, message)
    call plan%create(device, [9, 7, 5], [3, 3, 3], axes=3, stride=[1, 2], status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'stride has (2) numbers') > 0 &
      .and. index(message, '3 (width, height, depth)') > 0, message)
    call plan%create(device, [9, 7, 5], [3, 3, 3], axes=3, padding=[1, 1, 1, 1], status=status, &
      message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'front') > 0, message)
    call plan%create(device, [9, 7, 5], [3, 3, 3], axes=3, padding=1, boundary=[0, 5, 0], &
      status=status, message=message)
    call check(status == plumb_invalid_argument .and. &
      index(message, 'boundary_h is 5; expected 0 to 4') > 0, message)
    call plan%create(device, [9, 7, 5, 1, 1, 1], [3, 3, 3], status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, 'has (6) indices') > 0, message)
    call plumb_conv(device, u, f, u, padding=0, axes=3, status=status, message=message)
    call check(status == plumb_invalid_argument .and. index(message, '(2, 2, 2, 1, 1)') > 0, message)
    call plumb_conv(device, u, f, v, status=status, message=message)
    call check(status == plumb_ok .and. nint(sum(v)) == 8 * 27, 'a field of ones')
    call plan%create(device, [9, 7], [3, 3], plumb_f64)
    call plan%explain(all)
    do i = 1, size(all)
      call check(.not. all(i)%copies_input, all(i)%algorithm//' copies what has no boundary')
      call check(.not. all(i)%accumulate_fused, all(i)%algorithm//' accumulates nothing')
    end do
  end subroutine

end module test_axes
