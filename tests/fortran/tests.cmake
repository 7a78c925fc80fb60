# The Fortran module, and the example in Fortran.
if(PLUMB_SANITIZE)  # other compilers than C++'s have other sanitizers, or none
  return()
endif()
if(NOT PLUMB_HAVE_FORTRAN)
  plumb_test_without(FORTRAN "fortran: the module against plain loops")
  plumb_test_without(FORTRAN "example: heat in Fortran")
  return()
endif()

# fortran_program(NAME SOURCE...)
function(fortran_program name)
  add_executable(fortran_${name} ${ARGN})
  set_target_properties(fortran_${name} PROPERTIES
    Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fortran_${name})
  target_compile_options(fortran_${name} PRIVATE
    $<$<Fortran_COMPILER_ID:GNU>:-std=f2018;-Wall;-Wextra;-Wno-compare-reals;-fcheck=all,no-array-temps>
    $<$<BOOL:${PLUMB_WERROR}>:-Werror>)
  target_link_libraries(fortran_${name} PRIVATE plumb::fortran)
  plumb_runs_with_modules(fortran_${name})
endfunction()
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.f90)
fortran_program(test_plumb ${sources})
fortran_program(heat ${PROJECT_SOURCE_DIR}/examples/heat.f90)
add_test(NAME "fortran: the module against plain loops" COMMAND fortran_test_plumb)
add_test(NAME "example: heat in Fortran" COMMAND fortran_heat)
