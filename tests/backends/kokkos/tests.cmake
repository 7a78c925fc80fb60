# Tests of programs that are compiled with Kokkos themselves.
if(NOT PLUMB_HAVE_KOKKOS)
  if(PLUMB_KOKKOS AND NOT PLUMB_SANITIZE)
    plumb_test_without(KOKKOS "example: kokkos_filter")
  endif()
  return()
endif()
set(PLUMB_KOKKOS_TARGET plumb_kokkos_tests)
add_executable(plumb_kokkos_tests backends/kokkos/main.cpp backends/kokkos/test_rows.cpp
               backends/kokkos/test_views.cpp)
target_include_directories(plumb_kokkos_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(plumb_kokkos_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      plumb_found_kokkos)
add_executable(plumb_kokkos_lifetime backends/kokkos/lifetime.cpp)
add_executable(kokkos_filter ${PROJECT_SOURCE_DIR}/examples/kokkos_filter.cpp)
plumb_compile_with_kokkos(backends/kokkos/main.cpp backends/kokkos/test_rows.cpp backends/kokkos/test_views.cpp
                          backends/kokkos/lifetime.cpp ${PROJECT_SOURCE_DIR}/examples/kokkos_filter.cpp)
foreach(program plumb_kokkos_lifetime kokkos_filter)
  target_link_libraries(${program} PRIVATE plumb::plumb plumb_compiler plumb_found_kokkos)
endforeach()
foreach(program plumb_kokkos_tests plumb_kokkos_lifetime kokkos_filter)
  plumb_runs_with_modules(${program})
endforeach()
catch_discover_tests(plumb_kokkos_tests DISCOVERY_MODE PRE_TEST TEST_PREFIX "kokkos: "
                     PROPERTIES SKIP_RETURN_CODE 4)
add_test(NAME "kokkos: looking at the devices does not start Kokkos"
         COMMAND plumb_kokkos_lifetime unasked)
add_test(NAME "kokkos: what the program started is left running"
         COMMAND plumb_kokkos_lifetime owned)
add_test(NAME "kokkos: what Plumb started is left running"
         COMMAND plumb_kokkos_lifetime started)
add_test(NAME "kokkos: after Kokkos was finalised every call is an error"
         COMMAND plumb_kokkos_lifetime finalised)
add_test(NAME "example: kokkos_filter" COMMAND kokkos_filter)
add_test(NAME "example: kokkos_filter through the Kokkos backend" COMMAND kokkos_filter kokkos)
