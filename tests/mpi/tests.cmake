# libplumb_mpi under mpirun: each rank runs the same Catch2 program.
set(mpi_tests "distributed: random problems on 2 ranks" "distributed: random problems on 4 ranks"
    "distributed: reproducible on 1 rank" "distributed: reproducible on 3 ranks"
    "distributed: reproducible on 8 ranks"
    "distributed: from C on 4 ranks" "distributed: a rank is killed")
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
               ${CMAKE_CURRENT_LIST_DIR}/test_nccl.cpp
               ${CMAKE_CURRENT_LIST_DIR}/test_refusals.cpp)
target_include_directories(plumb_mpi_tests PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(plumb_mpi_tests PRIVATE plumb_mpi Catch2::Catch2 ${CMAKE_DL_LIBS})
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
  mpi_test("distributed: random problems on ${ranks} ranks" ${ranks} 400
           $<TARGET_FILE:plumb_mpi_tests> --abort)
endforeach()
mpi_test("distributed: reproducible on 1 rank" 1 60 $<TARGET_FILE:plumb_mpi_tests> --abort
         [reproducible])
# All 200 problems of a boundary take minutes where so many ranks share two cores.
foreach(ranks IN ITEMS 3 8)
  mpi_test("distributed: reproducible on ${ranks} ranks" ${ranks} 200 $<TARGET_FILE:plumb_mpi_tests>
           --abort [reproducible])
  set_tests_properties("distributed: reproducible on ${ranks} ranks" PROPERTIES
                       ENVIRONMENT "OMP_NUM_THREADS=1;PLUMB_MPI_TEST_CASES=40")
endforeach()

# What goes wrong on one rank, each in its time.
add_executable(plumb_mpi_faults ${CMAKE_CURRENT_LIST_DIR}/faults.cpp
               ${CMAKE_CURRENT_LIST_DIR}/spread_case.cpp)
target_include_directories(plumb_mpi_faults PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(plumb_mpi_faults PRIVATE plumb_mpi $<TARGET_NAME_IF_EXISTS:plumb_compiler>)
function(mpi_fault_test name case)
  mpi_test("distributed: ${name}" 3 40 $<TARGET_FILE:plumb_mpi_faults> ${case})
  if(ARGC GREATER 2)
    set_tests_properties("distributed: ${name}" PROPERTIES PASS_REGULAR_EXPRESSION "${ARGV2}")
  endif()
endfunction()
mpi_fault_test("a slow rank is waited for" slow)
mpi_fault_test("a rank that does not come is noticed" absent "the absent rank was noticed: yes")
mpi_fault_test("a rank is killed" killed "signal 9|SIGNAL: 9|EXIT CODE: 9")
mpi_fault_test("a rank out of memory" out_of_memory)
mpi_fault_test("a call from another thread" other_thread)
mpi_fault_test("MPI is not initialised" uninitialised)
mpi_fault_test("the thread level is too low" thread_level)
set_tests_properties("distributed: the thread level is too low" PROPERTIES
                     ENVIRONMENT OMP_NUM_THREADS=2)

# C99 and nothing else.
enable_language(C)
add_executable(plumb_mpi_from_c ${CMAKE_CURRENT_LIST_DIR}/from_c.c)
set_target_properties(plumb_mpi_from_c PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_link_libraries(plumb_mpi_from_c PRIVATE plumb_mpi)
mpi_test("distributed: from C on 4 ranks" 4 60 $<TARGET_FILE:plumb_mpi_from_c>)

# Measured by hand (tests/mpi/overhead), not by ctest: it wants a machine of its own.
add_executable(plumb_mpi_overhead ${CMAKE_CURRENT_LIST_DIR}/overhead.cpp)
target_link_libraries(plumb_mpi_overhead PRIVATE plumb_mpi $<TARGET_NAME_IF_EXISTS:plumb_compiler>)

# plumb field: one rank and four leave the same file, and say that they have the same bits.
if(NOT TARGET plumb_field)
  return()
endif()
get_target_property(field_definitions plumb_field COMPILE_DEFINITIONS)
set(writes_hdf5 no)
if(field_definitions MATCHES "HDF5")
  set(writes_hdf5 yes)
else()
  plumb_test_without(HDF5 "distributed: plumb field writes HDF5")
endif()
add_test(NAME "distributed: plumb field on 1 and 4 ranks"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/field.sh $<TARGET_FILE:plumb_program>
                 ${writes_hdf5} ${MPIEXEC_EXECUTABLE} ${mpi_options} ${MPIEXEC_NUMPROC_FLAG})
set_tests_properties("distributed: plumb field on 1 and 4 ranks" PROPERTIES
                     ENVIRONMENT OMP_NUM_THREADS=1 TIMEOUT 120 PROCESSORS 4)
