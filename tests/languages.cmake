# Plumb from other languages: each example is compiled as its users compile it, and run.
if(PLUMB_SANITIZE)  # other compilers than C++'s have other sanitizers, or none
  return()
endif()

# C99 and nothing else; the header must not need more.
enable_language(C)
add_executable(first_convolution_c ${PROJECT_SOURCE_DIR}/examples/first_convolution.c)
set_target_properties(first_convolution_c PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(first_convolution_c PRIVATE -Wall -Wextra -Wpedantic -pedantic-errors
                       -Wstrict-prototypes -Wconversion -Werror)
target_link_libraries(first_convolution_c PRIVATE plumb::plumb plumb_compiler)
plumb_runs_with_modules(first_convolution_c)
add_test(NAME "example: first_convolution in C" COMMAND first_convolution_c)
set_tests_properties("example: first_convolution in C" PROPERTIES
  PASS_REGULAR_EXPRESSION ": 1\\.000\n$")

# Where a language's compiler is missing, its tests are counted as skipped, and fail where CI or
# PLUMB_REQUIRE_<what> is set: tests/without says which.
function(plumb_test_without what test)
  add_test(NAME ${test} COMMAND bash ${PROJECT_SOURCE_DIR}/tests/without ${what})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 4)
endfunction()

if(PLUMB_HAVE_FORTRAN)
  foreach(program IN ITEMS tests/fortran/test_plumb.f90 examples/heat.f90)
    cmake_path(GET program STEM name)
    add_executable(fortran_${name} ${PROJECT_SOURCE_DIR}/${program})
    set_target_properties(fortran_${name} PROPERTIES
      Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fortran_${name})
    target_compile_options(fortran_${name} PRIVATE
      $<$<Fortran_COMPILER_ID:GNU>:-std=f2018;-Wall;-Wextra;-Wno-compare-reals;-fcheck=all,no-array-temps>
      $<$<BOOL:${PLUMB_WERROR}>:-Werror>)
    target_link_libraries(fortran_${name} PRIVATE plumb::fortran)
    plumb_runs_with_modules(fortran_${name})
  endforeach()
  add_test(NAME "fortran: the module against plain loops" COMMAND fortran_test_plumb)
  add_test(NAME "example: heat in Fortran" COMMAND fortran_heat)
else()
  plumb_test_without(FORTRAN "fortran: the module against plain loops")
  plumb_test_without(FORTRAN "example: heat in Fortran")
endif()

find_package(MPI COMPONENTS CXX)
foreach(ranks IN ITEMS 2 4)
  set(test "example: mpi_filter on ${ranks} ranks")
  if(NOT MPI_CXX_FOUND)
    plumb_test_without(MPI ${test})
    continue()
  endif()
  if(NOT TARGET mpi_filter)
    add_executable(mpi_filter ${PROJECT_SOURCE_DIR}/examples/mpi_filter.cpp)
    target_link_libraries(mpi_filter PRIVATE plumb::plumb plumb_compiler MPI::MPI_CXX)
    plumb_runs_with_modules(mpi_filter)
    # More ranks than cores, and root, are what a container has; Open MPI wants to be told.
    execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpi_version ERROR_QUIET)
    set(mpi_options)
    if(mpi_version MATCHES "Open MPI|OpenRTE")
      set(mpi_options --oversubscribe --allow-run-as-root)
    endif()
  endif()
  add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
           ${mpi_options} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:mpi_filter> ${MPIEXEC_POSTFLAGS})
  set_tests_properties(${test} PROPERTIES
    ENVIRONMENT OMP_NUM_THREADS=1 TIMEOUT 120)
endforeach()
