# The Toeplitz kernel's planner by itself, copies of the kernel with faults in them, and the kernel on the host.
set(toeplitz ${CMAKE_CURRENT_LIST_DIR})
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  plumb_planted(plumb_toeplitz_tests ${toeplitz}/test_toeplitz_plan.cpp ${toeplitz}/planted_toeplitz.cu
                ${toeplitz}/test_toeplitz_faults.cpp)
else()
  plumb_kernel_program(plumb_toeplitz_tests ${toeplitz}/test_toeplitz_plan.cpp $<TARGET_OBJECTS:plumb_catch_main>)
  plumb_discover_kernel_tests(plumb_toeplitz_tests)
endif()

if(PLUMB_EMULATION)
  set(emulation ${toeplitz}/emulation)
  plumb_emulated(plumb_emulated_toeplitz WORDS ${emulation}/toeplitz_words.hpp
    FOLDERS ${emulation}/shadows ${toeplitz}/../wide/emulation/shadows ${emulation}
    KERNELS ${emulation}/kernels_toeplitz.cpp TESTS ${emulation}/test_emulated_toeplitz.cpp)
endif()
