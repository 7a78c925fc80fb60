# The kernels of few_weights/ on the host, with the halves of wide/; and copies with faults in them.
set(few_weights ${CMAKE_CURRENT_LIST_DIR})
set(halves ${few_weights}/../wide/emulation)
if(PLUMB_EMULATION)
  set(emulation ${few_weights}/emulation)
  plumb_emulated(plumb_emulated_few_weights WORDS ${halves}/wide_words.hpp
    FOLDERS ${emulation}/shadows ${halves}/shadows ${emulation}
    KERNELS ${emulation}/kernels_few_weights.cpp TESTS ${emulation}/test_few_weights.cpp)
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_few_weights_tests ${few_weights}/planted_few_weights.cu
                ${few_weights}/test_few_weights_faults.cpp)
  target_include_directories(plumb_few_weights_tests PRIVATE ${few_weights})
endif()
