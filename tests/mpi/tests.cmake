# libplumb_mpi under mpirun: each rank runs the same Catch2 program.
set(mpi_tests "distributed: random problems on 2 ranks" "distributed: random problems on 4 ranks"
    "distributed: faults on 3 ranks")
if(NOT TARGET plumb_mpi)
  if(NOT PLUMB_SANITIZE)
    foreach(test IN LISTS mpi_tests)
      plumb_test_without(MPI ${test})
    endforeach()
  endif()
  return()
endif()
# More ranks than cores, and root, are what a container has; Open MPI wants to be told.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpi_version ERROR_QUIET)
set(mpi_options)
if(mpi_version MATCHES "Open MPI|OpenRTE")
  set(mpi_options --oversubscribe --allow-run-as-root)
endif()

add_executable(plumb_mpi_tests ${CMAKE_CURRENT_LIST_DIR}/main.cpp
               ${CMAKE_CURRENT_LIST_DIR}/spread_case.cpp
               ${CMAKE_CURRENT_LIST_DIR}/test_distributed.cpp
               ${CMAKE_CURRENT_LIST_DIR}/test_refusals.cpp)
target_include_directories(plumb_mpi_tests PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(plumb_mpi_tests PRIVATE plumb_mpi Catch2::Catch2)
target_compile_options(plumb_mpi_tests PRIVATE $<$<CONFIG:Release>:-O1>)
if(TARGET plumb_compiler)
  target_link_libraries(plumb_mpi_tests PRIVATE plumb_compiler)
  plumb_runs_with_modules(plumb_mpi_tests)
endif()

# mpi_test(NAME RANKS SECONDS COMMAND...): a test that hangs is ended, and fails.
function(mpi_test name ranks seconds)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
           ${mpi_options} ${MPIEXEC_PREFLAGS} ${ARGN} ${MPIEXEC_POSTFLAGS})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1 TIMEOUT ${seconds}
                       PROCESSORS ${ranks})
endfunction()
foreach(ranks IN ITEMS 2 4)
  mpi_test("distributed: random problems on ${ranks} ranks" ${ranks} 180
           $<TARGET_FILE:plumb_mpi_tests> --abort)
endforeach()
