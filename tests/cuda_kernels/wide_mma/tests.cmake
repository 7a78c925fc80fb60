# The kernel of wide_mma/ on the host, with the emulations of wide/ and few_weights/, and its planner; and copies with
# faults in them.
set(wide_mma ${CMAKE_CURRENT_LIST_DIR})
set(others ${wide_mma}/..)
if(PLUMB_EMULATION)
  set(emulation ${wide_mma}/emulation)
  plumb_emulated(plumb_emulated_wide_mma WORDS ${others}/wide/emulation/wide_words.hpp
    FOLDERS ${others}/pointwise/emulation/shadows ${others}/few_weights/emulation/shadows
            ${others}/wide/emulation/shadows ${emulation}
    KERNELS ${emulation}/kernels_wide_mma.cpp TESTS ${emulation}/test_emulated_wide_mma.cpp ${wide_mma}/test_wide_mma_plan.cpp)
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_wide_mma_tests ${wide_mma}/planted_wide_mma.cu ${wide_mma}/test_wide_mma_faults.cpp)
  target_include_directories(plumb_wide_mma_tests PRIVATE ${wide_mma})
endif()
