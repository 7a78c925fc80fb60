# The kernel of depthwise_toeplitz/ on the host, with the halves of wide/ and the products of few_weights/; and copies
# with faults in them.
set(depthwise_toeplitz ${CMAKE_CURRENT_LIST_DIR})
set(halves ${depthwise_toeplitz}/../wide/emulation)
if(PLUMB_EMULATION)
  set(emulation ${depthwise_toeplitz}/emulation)
  plumb_emulated(plumb_emulated_depthwise_toeplitz WORDS ${halves}/wide_words.hpp
    FOLDERS ${emulation}/shadows ${depthwise_toeplitz}/../few_weights/emulation/shadows ${halves}/shadows ${emulation}
    KERNELS ${emulation}/kernels_depthwise_toeplitz.cpp TESTS ${emulation}/test_depthwise_toeplitz.cpp)
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_depthwise_toeplitz_tests ${depthwise_toeplitz}/planted_depthwise_toeplitz.cu
                ${depthwise_toeplitz}/test_depthwise_toeplitz_faults.cpp)
  target_include_directories(plumb_depthwise_toeplitz_tests PRIVATE ${depthwise_toeplitz})
endif()
