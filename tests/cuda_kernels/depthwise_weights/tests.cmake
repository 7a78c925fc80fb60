# The kernels of depthwise backward weights on the host, with the cases and copies of weights/; and copies of the algorithm
# with faults in their plans.
set(depthwise_weights ${CMAKE_CURRENT_LIST_DIR})
if(NOT PLUMB_EMULATION)
  return()
endif()
set(emulation ${depthwise_weights}/emulation)
set(weights ${depthwise_weights}/../weights/emulation)
# Warnings of kernels are the matter of their own compiler.
set_source_files_properties(${emulation}/kernels.cpp PROPERTIES
  COMPILE_OPTIONS "-include;${fibers}/device_words.hpp;-w;${PLUMB_KERNEL_LEVEL_1}")
plumb_emulated(plumb_emulated_depthwise_weights FOLDERS ${weights}/shadows ${weights} KERNELS ${emulation}/kernels.cpp
               TESTS ${emulation}/test_depthwise_weights.cpp)
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_depthwise_weights_tests
    ${depthwise_weights}/planted_depthwise_weights.cpp ${depthwise_weights}/test_depthwise_weights_faults.cpp
    ${kernels}/depthwise_weights/depthwise_weights_f32.cu)
  target_include_directories(plumb_depthwise_weights_tests PRIVATE ${depthwise_weights})
endif()
