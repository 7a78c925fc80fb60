# The kernel of octet_weights/ on the host, with the emulation of few_weights/ and the halves of wide/; and copies with
# faults in them.
set(octet_weights ${CMAKE_CURRENT_LIST_DIR})
set(few_weights ${octet_weights}/../few_weights)
set(halves ${octet_weights}/../wide/emulation)
if(PLUMB_EMULATION)
  set(emulation ${octet_weights}/emulation)
  plumb_emulated(plumb_emulated_octet_weights WORDS ${halves}/wide_words.hpp
    FOLDERS ${emulation}/shadows ${few_weights}/emulation/shadows ${halves}/shadows ${emulation}
    KERNELS ${emulation}/kernels_octet_weights.cpp TESTS ${emulation}/test_octet_weights.cpp)
endif()
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  plumb_planted(plumb_octet_weights_tests ${octet_weights}/planted_octet_weights.cu
                ${octet_weights}/test_octet_weights_faults.cpp)
  target_include_directories(plumb_octet_weights_tests PRIVATE ${octet_weights})
endif()
