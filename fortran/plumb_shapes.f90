! Shapes of images with one to three axes as Fortran has them, and numbers given for all axes or for
! each, as C's geometry.
module plumb_shapes
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use plumb_c
  implicit none
  public

  !> What messages expect, by the number of axes.
  character(*), parameter :: shapes(3) = [character(76) :: &
    'x(w, c, n), w(s, c/groups, k), y(q, k, n)', &
    'x(w, h, c, n), w(s, r, c/groups, k), y(q, p, k, n)', &
    'x(w, h, d, c, n), w(s, r, t, c/groups, k), y(q, p, z, k, n)']

contains

  !> A shape as width, height, depth, channels and images, with ones for what is left out or not
  !> there; zeros where it has more indices than that.
  pure function five(extents, axes) result(filled)
    integer(int64), intent(in) :: extents(:)
    integer, intent(in) :: axes
    integer(int64) :: filled(5)
    integer :: image
    filled = 0
    if (size(extents) > axes + 2) return
    filled = 1
    image = min(size(extents), axes)
    filled(:image) = extents(:image)
    filled(4:3 + size(extents) - image) = extents(image + 1:)
  end function

  !> The shape of an array with all its indices, of what five() gives.
  pure function shape_of(filled, axes) result(extents)
    integer(int64), intent(in) :: filled(5)
    integer, intent(in) :: axes
    integer(int64) :: extents(axes + 2)
    extents = [filled(:axes), filled(4:5)]
  end function

  !> Sets the extents of a problem from those of x and w, slowest axis last.
  subroutine set_extents(problem, x, w)
    type(problem_c), intent(inout) :: problem
    integer(int64), intent(in) :: x(5), w(5)
    problem%w = x(1)
    problem%h = x(2)
    problem%d = x(3)
    problem%c = x(4)
    problem%n = x(5)
    problem%s = w(1)
    problem%r = w(2)
    problem%t = w(3)
    problem%k = w(5)
  end subroutine

  !> What was given for `name`, a number or an array of them, as one number for each axis or, with
  !> `sides`, as one before and one behind along each. `own` says what is wrong, or is left alone.
  subroutine spread_out(given, name, axes, sides, numbers, own)
    integer, intent(in) :: given(..)
    character(*), intent(in) :: name
    integer, intent(in) :: axes
    logical, intent(in) :: sides
    integer(int64), intent(out) :: numbers(6)  !< along the width, height, depth, and so again
    character(:), allocatable, intent(inout) :: own
    character(*), parameter :: of_axes(3) = [character(26) :: '', ', 2 (width, height)', &
      ', 3 (width, height, depth)'], of_sides(3) = [character(46) :: ' or 2 (left, right)', &
      ' or 4 (left, top, right, bottom)', ' or 6 (left, top, front, right, bottom, back)']
    integer :: i, count
    numbers = 0
    count = size(given)
    select rank (given)
    rank (0)
      numbers = given
    rank (1)
      if (count == 1 .or. count == axes .or. (sides .and. count == 2 * axes)) then
        do i = 1, 2 * axes
          numbers(merge(i, i - axes + 3, i <= axes)) = given(mod(i - 1, count) + 1)
        end do
      else
        count = 0
      end if
    rank default
      count = 0
    end select
    if (count > 0) return
    own = name//' has '//text([int(size(given), int64)])//' numbers; expected 1 (everywhere)'// &
      trim(of_axes(axes))
    if (sides) own = own//trim(of_sides(axes))
  end subroutine

  !> The geometry; `own` says what is wrong with it, or is not allocated. What is along axes that the
  !> images lack is left plain.
  subroutine set_geometry(geometry, own, axes, stride, dilation, padding, groups, boundary)
    type(geometry_c), intent(out) :: geometry
    character(:), allocatable, intent(out) :: own
    integer, intent(in) :: axes
    integer, intent(in), optional :: stride(..), dilation(..), padding(..), groups, boundary(..)
    integer(int64) :: numbers(6)
    integer(c_int32_t) :: code
    integer :: d, h, w
    code = plumb_conv_geometry_init_c(geometry)
    w = 1
    h = 2
    d = 3
    if (present(stride)) then
      call spread_out(stride, 'stride', axes, .false., numbers, own)
      geometry%stride_w = numbers(w)
      if (axes >= h) geometry%stride_h = numbers(h)
      if (axes >= d) geometry%stride_d = numbers(d)
    end if
    if (present(dilation)) then
      call spread_out(dilation, 'dilation', axes, .false., numbers, own)
      geometry%dilation_w = numbers(w)
      if (axes >= h) geometry%dilation_h = numbers(h)
      if (axes >= d) geometry%dilation_d = numbers(d)
    end if
    if (present(padding)) then
      call spread_out(padding, 'padding', axes, .true., numbers, own)
      geometry%padding_left = numbers(w)
      geometry%padding_right = numbers(3 + w)
      if (axes >= h) geometry%padding_top = numbers(h)
      if (axes >= h) geometry%padding_bottom = numbers(3 + h)
      if (axes >= d) geometry%padding_front = numbers(d)
      if (axes >= d) geometry%padding_back = numbers(3 + d)
    end if
    if (present(boundary)) then
      call spread_out(boundary, 'boundary', axes, .false., numbers, own)
      geometry%boundary_w = int(numbers(w), c_int32_t)
      if (axes >= h) geometry%boundary_h = int(numbers(h), c_int32_t)
      if (axes >= d) geometry%boundary_d = int(numbers(d), c_int32_t)
    end if
    if (present(groups)) geometry%groups = groups
  end subroutine

  !> The axes of the images: what was given, otherwise 3 where an array has five indices, and 2.
  subroutine count_axes(axes, own, indices, given)
    integer, intent(out) :: axes
    character(:), allocatable, intent(inout) :: own
    integer, intent(in) :: indices  !< the most of any array
    integer, intent(in), optional :: given
    axes = merge(3, 2, indices == 5)
    if (present(given)) axes = min(max(given, 1), 3)
    if (indices > axes + 2) own = 'an array has '//text([int(indices, int64)])// &
      ' indices; expected at most '//trim(shapes(axes))
    if (.not. present(given)) return
    if (given /= axes) own = 'axes is '//text([int(given, int64)])//'; expected 1, 2 or 3'
  end subroutine

  !> Says in `own` what is wrong between the channels of x and w, and which number of groups would fit,
  !> or leaves it alone.
  subroutine check_channels(x, w, axes, groups, own)
    integer(int64), intent(in) :: x(5), w(5), groups
    integer, intent(in) :: axes
    character(:), allocatable, intent(inout) :: own
    character(20) :: number
    if (w(4) * groups == x(4)) return
    own = 'x is '//text(shape_of(x, axes))//' and w is '//text(shape_of(w, axes))//'; expected '// &
      trim(shapes(axes))
    if (w(4) < 1 .or. x(4) < 1) return
    if (axes == 2 .and. x(5) == 1 .and. w(5) == 1) &
      own = own//'; axes=3 makes the third index the depth'
    if (mod(x(4), w(4)) /= 0) return
    if (mod(w(5), x(4) / w(4)) /= 0) return
    write (number, '(i0)') x(4) / w(4)
    own = own//'; groups='//trim(number)//' would fit'
  end subroutine

end module plumb_shapes
