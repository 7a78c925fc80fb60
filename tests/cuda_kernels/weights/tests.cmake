# The kernels of backward weights on the host.
if(PLUMB_EMULATION)
  set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
  # Warnings of kernels are the matter of their own compiler.
  set_source_files_properties(${emulation}/kernels.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${fibers}/device_words.hpp;-w;${PLUMB_KERNEL_LEVEL_1}")
  plumb_emulated(plumb_emulated_weights FOLDERS ${emulation}/shadows KERNELS ${emulation}/kernels.cpp
                 TESTS ${emulation}/test_weights.cpp)
endif()
