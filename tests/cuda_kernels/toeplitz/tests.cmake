# The Toeplitz kernel's planner by itself, and copies of the kernel with faults in them: a program of
# its own, since the module has functions of the same names.
set(toeplitz ${CMAKE_CURRENT_LIST_DIR})
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(toeplitz_sources
  ${kernels}/toeplitz/toeplitz_plan.cpp ${kernels}/conv/conv_support.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
  ${kernels}/cost/tables.cpp ${kernels}/fields/field_problem.cpp ${kernels}/fields/field_view.cpp
  ${kernels}/fields/field_support.cpp)
add_executable(plumb_toeplitz_tests
  ${CMAKE_CURRENT_SOURCE_DIR}/cuda_kernels/wide/main.cpp ${toeplitz}/test_toeplitz_plan.cpp
  ${toeplitz_sources})
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

# The kernel's sources compiled for the host, where threads are fibers (tests/cuda_kernels/fields).
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  set(emulation ${toeplitz}/emulation)
  set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
  set(halves ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/wide/emulation)
  add_executable(plumb_emulated_toeplitz
    ${emulation}/kernels_toeplitz.cpp ${emulation}/test_emulated_toeplitz.cpp ${fibers}/emulation.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/cuda_kernels/wide/main.cpp ${toeplitz_sources})
  # Their headers take the place of the few that speak to the device.
  target_include_directories(plumb_emulated_toeplitz BEFORE PRIVATE
    ${emulation}/shadows ${halves}/shadows ${fibers}/shadows ${emulation} ${fibers})
  target_include_directories(plumb_emulated_toeplitz PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_emulated_toeplitz PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                        fmt::fmt-header-only)
  target_compile_definitions(plumb_emulated_toeplitz PRIVATE PLUMB_CUDA_SM90A)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_toeplitz.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${emulation}/toeplitz_words.hpp;-w;-O2;-fno-strict-aliasing")
  catch_discover_tests(plumb_emulated_toeplitz DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()
