# Each example is compiled as its users compile it, and run. Those in Fortran are in fortran/tests.cmake,
# those with Kokkos in backends/kokkos/tests.cmake.
function(example name)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/examples/${name}.cpp)
  target_link_libraries(${name} PRIVATE plumb::plumb plumb_compiler ${ARGN})
  plumb_runs_with_modules(${name})
endfunction()

example(first_convolution)
add_test(NAME "example: first_convolution" COMMAND first_convolution)
set_tests_properties("example: first_convolution" PROPERTIES PASS_REGULAR_EXPRESSION ": 1\\.000\n$")
example(tasks)
add_test(NAME "example: tasks" COMMAND tasks)
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

find_package(MPI COMPONENTS CXX)
foreach(ranks IN ITEMS 2 4)
  set(test "example: mpi_filter on ${ranks} ranks")
  if(NOT MPI_CXX_FOUND)
    plumb_test_without(MPI ${test})
    continue()
  endif()
  if(NOT TARGET mpi_filter)
    example(mpi_filter MPI::MPI_CXX)
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
