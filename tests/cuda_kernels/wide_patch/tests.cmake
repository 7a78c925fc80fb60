# The patch kernel on the host, with the emulation of wide/; its planner, and copies with faults in them.
set(wide_patch ${CMAKE_CURRENT_LIST_DIR})
set(wide ${wide_patch}/../wide)
if(PLUMB_EMULATION)
  set(emulation ${wide_patch}/emulation)
  plumb_emulated(plumb_emulated_wide_patch WORDS ${wide}/emulation/wide_words.hpp
    FOLDERS ${wide}/emulation/shadows ${emulation} ${wide}/emulation
    KERNELS ${emulation}/kernels_patch.cpp TESTS ${emulation}/test_emulated_patch.cpp ${wide_patch}/test_patch_plan.cpp)
endif()

if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  plumb_planted(plumb_wide_patch_tests ${wide_patch}/planted_wide_patch.cu ${wide_patch}/test_wide_patch_faults.cpp)
  target_include_directories(plumb_wide_patch_tests PRIVATE ${wide_patch})

  # Checks the kernel and what it takes for granted, and times its tiles, on a machine with a GPU; built on demand.
  foreach(program plumb_race_wide_patch plumb_check_wide_patch)
    add_executable(${program} EXCLUDE_FROM_ALL ${wide_patch}/race.cu ${kernels}/primitives/check.cpp
                   ${kernels}/primitives/tensor_map.cpp)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${program} PRIVATE plumb_planners plumb::plumb plumb_compiler plumb_fmt CUDA::cudart_static)
  endforeach()
  target_compile_definitions(plumb_check_wide_patch PRIVATE PLUMB_BOUNDED_WAITS)
endif()
