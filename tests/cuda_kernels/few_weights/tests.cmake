# The kernels of few_weights/ compiled for the host, where threads are fibers: a program of its own, with the
# emulation of fields/ and the halves of wide/.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(wide ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/wide)
set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(few_weights_sources
  ${kernels}/few_weights/few_weights_plan.cpp ${kernels}/weights/weights_plan.cpp ${kernels}/conv/conv_support.cpp
  ${kernels}/cost/few_weights.cpp ${kernels}/cost/weights.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
  ${kernels}/cost/tables.cpp)
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  add_executable(plumb_emulated_few_weights ${emulation}/kernels_few_weights.cpp ${emulation}/test_few_weights.cpp
                 ${fibers}/emulation.cpp ${fibers}/main.cpp ${few_weights_sources})
  # Their headers take the place of the few that speak to the device.
  target_include_directories(plumb_emulated_few_weights BEFORE PRIVATE
    ${emulation}/shadows ${wide}/emulation/shadows ${fibers}/shadows ${fibers} ${emulation})
  target_include_directories(plumb_emulated_few_weights PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_emulated_few_weights PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 fmt::fmt-header-only)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_few_weights.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${wide}/emulation/wide_words.hpp;-w;-O2;-fno-strict-aliasing")
  catch_discover_tests(plumb_emulated_few_weights DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()

# Copies of the kernel with faults in them, on a machine with a GPU.
if(PLUMB_HAVE_CUDA)
  set(planted ${CMAKE_CURRENT_LIST_DIR})
  add_executable(plumb_few_weights_tests ${wide}/main.cpp ${planted}/planted_few_weights.cu
                 ${planted}/test_few_weights_faults.cpp ${few_weights_sources} ${kernels}/primitives/check.cpp)
  target_include_directories(plumb_few_weights_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR} ${planted})
  target_link_libraries(plumb_few_weights_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 fmt::fmt-header-only
                        CUDA::cudart_static)
  plumb_runs_with_modules(plumb_few_weights_tests)
  catch_discover_tests(plumb_few_weights_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()
