# The patch kernel on the host, with the emulation of wide/.
set(wide_patch ${CMAKE_CURRENT_LIST_DIR})
set(wide ${wide_patch}/../wide)
if(PLUMB_EMULATION)
  set(emulation ${wide_patch}/emulation)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_patch.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${wide}/emulation/wide_words.hpp;-w;-O1;-fno-strict-aliasing")
  plumb_emulated(plumb_emulated_wide_patch FOLDERS ${wide}/emulation/shadows ${emulation} ${wide}/emulation
    KERNELS ${emulation}/kernels_patch.cpp TESTS ${emulation}/test_emulated_patch.cpp)
endif()
