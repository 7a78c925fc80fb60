# The wide kernel's planner by itself, and copies of the kernel with faults in them: a program of its
# own, since the module has functions of the same names.
set(wide ${CMAKE_CURRENT_LIST_DIR})
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(wide_sources
  ${kernels}/wide/wide_plan.cpp ${kernels}/conv/conv_support.cpp ${kernels}/cost/kernel_model.cpp
  ${kernels}/cost/machine.cpp ${kernels}/cost/tables.cpp ${kernels}/cost/wide.cpp)
add_executable(plumb_wide_tests ${wide}/main.cpp ${wide}/test_plan.cpp ${wide_sources})
target_include_directories(plumb_wide_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_wide_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      fmt::fmt-header-only)
# The plan of a device with wgmma can be tested in any build.
target_compile_definitions(plumb_wide_tests PRIVATE PLUMB_CUDA_SM90A)
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  target_sources(plumb_wide_tests PRIVATE ${wide}/planted_wide.cu ${wide}/test_wide_faults.cpp
                 ${kernels}/primitives/check.cpp ${kernels}/primitives/tensor_map.cpp)
  target_link_libraries(plumb_wide_tests PRIVATE CUDA::cudart_static)
  plumb_runs_with_modules(plumb_wide_tests)
endif()
catch_discover_tests(plumb_wide_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

# Checks the kernel part by part and times its tiles, on a machine with a GPU; built on demand.
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  foreach(program plumb_race_wide plumb_check_wide)
    add_executable(${program} EXCLUDE_FROM_ALL ${wide}/race.cu ${wide_sources}
                   ${kernels}/primitives/check.cpp ${kernels}/primitives/tensor_map.cpp)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${program} PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only
                          CUDA::cudart_static)
    target_compile_definitions(${program} PRIVATE PLUMB_CUDA_SM90A)
  endforeach()
  target_compile_definitions(plumb_check_wide PRIVATE PLUMB_BOUNDED_WAITS)
endif()
