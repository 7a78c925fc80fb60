# The Fortran module, and the examples in Fortran.
if(PLUMB_SANITIZE)  # other compilers than C++'s have other sanitizers, or none
  return()
endif()
if(NOT PLUMB_HAVE_FORTRAN)
  plumb_test_without(FORTRAN "fortran: the module against plain loops")
  plumb_test_without(FORTRAN "example: heat in Fortran")
  plumb_test_without(FORTRAN "example: a field in Fortran")
  plumb_test_without(FORTRAN "example: heat3d on 2 ranks")
  plumb_test_without(FORTRAN "example: heat3d on 3 ranks")
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
fortran_program(field ${PROJECT_SOURCE_DIR}/examples/field.f90)
add_test(NAME "example: a field in Fortran" COMMAND fortran_field)
set_tests_properties("example: a field in Fortran" PROPERTIES
  PASS_REGULAR_EXPRESSION ": far corner  1\\.000, in all 27\\.000\n$")

find_package(OpenMP COMPONENTS Fortran)
if(OpenMP_Fortran_FOUND)
  fortran_program(device_pointers ${PROJECT_SOURCE_DIR}/examples/device_pointers.f90)
  target_link_libraries(fortran_device_pointers PRIVATE OpenMP::OpenMP_Fortran)
  add_test(NAME "example: pointers of OpenMP's target" COMMAND fortran_device_pointers)
endif()

find_package(MPI COMPONENTS Fortran)
if(NOT MPI_Fortran_FOUND OR NOT TARGET plumb_mpi_fortran)
  plumb_test_without(MPI "example: heat3d on 2 ranks")
  plumb_test_without(MPI "example: heat3d on 3 ranks")
  return()
endif()
fortran_program(heat3d ${PROJECT_SOURCE_DIR}/examples/heat3d.f90)
target_link_libraries(fortran_heat3d PRIVATE plumb_mpi_fortran MPI::MPI_Fortran)
foreach(ranks IN ITEMS 2 3)
  add_test(NAME "example: heat3d on ${ranks} ranks"
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${mpi_options}
           ${MPIEXEC_PREFLAGS} $<TARGET_FILE:fortran_heat3d> ${MPIEXEC_POSTFLAGS})
  set_tests_properties("example: heat3d on ${ranks} ranks" PROPERTIES
    ENVIRONMENT OMP_NUM_THREADS=1 TIMEOUT 120)
endforeach()
