! The Fortran module against plain loops, in every way of calling it. Prints what failed, and stops with an
! error.
program test_plumb
  use plumb_case
  use test_axes
  use test_gradients
  use test_calls
  use test_refusals
  use test_planning
  implicit none

  call set_up()
  call arrays_of_fortran()
  call arrays_on_the_device()
  call fields()
  call sections()
  call one_number()
  call three_axes()
  call boundaries()
  call plain_fields()
  call planes()
  call axes_refused()
  call gradients_of_two_axes()
  call gradients_of_one_axis()
  call gradients_of_three_axes()
  call gradients_refused()
  call options()
  call explanations()
  call lifetimes()
  call refusals()
  call overlaps()
  if (failures > 0) error stop 'the Fortran module is not right'
  print '(2a)', 'all is well on ', device%id()
end program test_plumb
