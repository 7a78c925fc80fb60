# The kernels of wide_weights/ compiled for the host, where threads are fibers: a program of its own, with
# the emulation of wide/.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(wide ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/wide)
set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(wide_weights_sources
  ${kernels}/wide_weights/wide_weights_plan.cpp ${kernels}/weights/weights_plan.cpp ${kernels}/wide/wide_layouts.cpp
  ${kernels}/wide/wide_plan.cpp ${kernels}/conv/conv_support.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
  ${kernels}/cost/tables.cpp ${kernels}/cost/weights.cpp ${kernels}/cost/wide.cpp ${kernels}/cost/wide_weights.cpp)
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  add_executable(plumb_emulated_wide_weights ${emulation}/kernels_wide_weights.cpp ${emulation}/test_emulated_weights.cpp
                 ${emulation}/test_weights_plan.cpp
                 ${fibers}/emulation.cpp ${wide}/main.cpp ${wide_weights_sources})
  # Their headers take the place of the few that speak to the device.
  target_include_directories(plumb_emulated_wide_weights BEFORE PRIVATE
    ${wide}/emulation/shadows ${fibers}/shadows ${emulation} ${wide}/emulation ${fibers})
  target_include_directories(plumb_emulated_wide_weights PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_emulated_wide_weights PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                        fmt::fmt-header-only)
  target_compile_definitions(plumb_emulated_wide_weights PRIVATE PLUMB_CUDA_SM90A)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_wide_weights.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${wide}/emulation/wide_words.hpp;-w;-O1;-fno-strict-aliasing")
  catch_discover_tests(plumb_emulated_wide_weights DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()

# Copies of the kernel with faults in them, on a machine with a GPU.
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  set(planted ${CMAKE_CURRENT_LIST_DIR})
  add_executable(plumb_wide_weights_tests ${wide}/main.cpp ${planted}/planted_wide_weights.cu
                 ${planted}/test_wide_weights_faults.cpp ${wide_weights_sources}
                 ${kernels}/primitives/check.cpp ${kernels}/primitives/tensor_map.cpp)
  target_include_directories(plumb_wide_weights_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR} ${planted})
  target_link_libraries(plumb_wide_weights_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 fmt::fmt-header-only
                        CUDA::cudart_static)
  target_compile_definitions(plumb_wide_weights_tests PRIVATE PLUMB_CUDA_SM90A)
  plumb_runs_with_modules(plumb_wide_weights_tests)
  catch_discover_tests(plumb_wide_weights_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()
