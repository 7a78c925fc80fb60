# The kernel of pointwise/ on the host, with the emulation of wide/, and its planner; and copies with faults in them.
set(pointwise ${CMAKE_CURRENT_LIST_DIR})
set(halves ${pointwise}/../wide/emulation)
if(PLUMB_EMULATION)
  set(emulation ${pointwise}/emulation)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_pointwise.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${emulation}/pointwise_words.hpp;-w;-O1;-fno-strict-aliasing")
  plumb_emulated(plumb_emulated_pointwise FOLDERS ${emulation}/shadows ${halves}/shadows ${emulation}
    KERNELS ${emulation}/kernels_pointwise.cpp TESTS ${emulation}/test_emulated_pointwise.cpp ${pointwise}/test_pointwise_plan.cpp)
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_pointwise_tests ${pointwise}/planted_pointwise.cu ${pointwise}/test_pointwise_faults.cpp)
  target_include_directories(plumb_pointwise_tests PRIVATE ${pointwise})
endif()
