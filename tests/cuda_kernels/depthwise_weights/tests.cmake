# The kernels of depthwise backward weights compiled for the host, where threads are fibers: a program of its
# own, as those of weights, whose cases and copies it shares.
if(PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  return()
endif()
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(weights ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/weights/emulation)
set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(depthwise_weights_sources
  ${kernels}/depthwise_weights/depthwise_weights_plan.cpp ${kernels}/weights/weights_plan.cpp
  ${kernels}/cost/depthwise_weights.cpp ${kernels}/cost/weights.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
  ${kernels}/cost/tables.cpp ${kernels}/conv/conv_support.cpp)
add_executable(plumb_emulated_depthwise_weights
  ${emulation}/kernels.cpp ${emulation}/test_depthwise_weights.cpp ${fibers}/emulation.cpp ${fibers}/main.cpp
  ${depthwise_weights_sources})
# Its headers take the place of the few that speak to the device.
target_include_directories(plumb_emulated_depthwise_weights BEFORE PRIVATE
  ${weights}/shadows ${fibers}/shadows ${fibers} ${weights})
target_include_directories(plumb_emulated_depthwise_weights PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_emulated_depthwise_weights PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only Catch2::Catch2)
# Warnings of kernels are the matter of their own compiler.
set_source_files_properties(${emulation}/kernels.cpp PROPERTIES
  COMPILE_OPTIONS "-include;${fibers}/device_words.hpp;-w;-O1")
catch_discover_tests(plumb_emulated_depthwise_weights DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

# Copies of the algorithm with faults in their plans, on a machine with a GPU.
if(PLUMB_HAVE_CUDA)
  set(planted ${CMAKE_CURRENT_LIST_DIR})
  add_executable(plumb_depthwise_weights_tests
    ${fibers}/main.cpp ${planted}/planted_depthwise_weights.cpp ${planted}/test_depthwise_weights_faults.cpp
    ${kernels}/depthwise_weights/depthwise_weights_f32.cu ${depthwise_weights_sources} ${kernels}/primitives/check.cpp)
  target_include_directories(plumb_depthwise_weights_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR} ${planted})
  target_link_libraries(plumb_depthwise_weights_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 fmt::fmt-header-only
                        CUDA::cudart_static)
  plumb_runs_with_modules(plumb_depthwise_weights_tests)
  catch_discover_tests(plumb_depthwise_weights_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()
