# The Toeplitz kernel's planner by itself, and copies of the kernel with faults in them: a program of
# its own, since the module has functions of the same names.
set(toeplitz ${CMAKE_CURRENT_LIST_DIR})
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
add_executable(plumb_toeplitz_tests
  ${CMAKE_CURRENT_SOURCE_DIR}/cuda_kernels/wide/main.cpp ${toeplitz}/test_toeplitz_plan.cpp
  ${kernels}/toeplitz/toeplitz_plan.cpp ${kernels}/conv/conv_support.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
  ${kernels}/cost/tables.cpp ${kernels}/fields/field_problem.cpp ${kernels}/fields/field_view.cpp
  ${kernels}/fields/field_support.cpp)
target_include_directories(plumb_toeplitz_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_toeplitz_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      fmt::fmt-header-only)
# The plan of a device with wgmma can be tested in any build.
target_compile_definitions(plumb_toeplitz_tests PRIVATE PLUMB_CUDA_SM90A)
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  target_sources(plumb_toeplitz_tests PRIVATE ${toeplitz}/planted_toeplitz.cu
                 ${toeplitz}/test_toeplitz_faults.cpp ${kernels}/primitives/check.cpp)
  target_link_libraries(plumb_toeplitz_tests PRIVATE CUDA::cudart_static)
  plumb_runs_with_modules(plumb_toeplitz_tests)
endif()
catch_discover_tests(plumb_toeplitz_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
