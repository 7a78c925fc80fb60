# The kernels of wide_weights/ on the host, with the emulation of wide/; and copies with faults in them.
set(wide_weights ${CMAKE_CURRENT_LIST_DIR})
set(wide ${wide_weights}/../wide)
if(PLUMB_EMULATION)
  set(emulation ${wide_weights}/emulation)
  plumb_emulated(plumb_emulated_wide_weights WORDS ${wide}/emulation/wide_words.hpp
    FOLDERS ${wide}/emulation/shadows ${emulation} ${wide}/emulation
    KERNELS ${emulation}/kernels_wide_weights.cpp
    TESTS ${emulation}/test_emulated_weights.cpp ${emulation}/test_weights_plan.cpp)
endif()
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  plumb_planted(plumb_wide_weights_tests ${wide_weights}/planted_wide_weights.cu
                ${wide_weights}/test_wide_weights_faults.cpp)
  target_include_directories(plumb_wide_weights_tests PRIVATE ${wide_weights})
endif()
