# The kernel of grouped/ on the host, with the emulations of wide/, pointwise/, few_weights/ and depthwise_toeplitz/, and its planner;
# and copies with faults in them.
set(grouped ${CMAKE_CURRENT_LIST_DIR})
set(others ${grouped}/..)
if(PLUMB_EMULATION)
  set(emulation ${grouped}/emulation)
  plumb_emulated(plumb_emulated_grouped WORDS ${others}/pointwise/emulation/pointwise_words.hpp
    FOLDERS ${others}/depthwise_toeplitz/emulation/shadows ${others}/pointwise/emulation/shadows ${others}/few_weights/emulation/shadows
            ${others}/wide/emulation/shadows ${emulation}
    KERNELS ${emulation}/kernels_grouped.cpp TESTS ${emulation}/test_emulated_grouped.cpp ${grouped}/test_grouped_plan.cpp)
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_grouped_tests ${grouped}/planted_grouped.cu ${grouped}/test_grouped_faults.cpp)
  target_include_directories(plumb_grouped_tests PRIVATE ${grouped})
endif()
