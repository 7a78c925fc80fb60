# The wide kernel's planner by itself, copies of the kernel with faults in them, and the kernel on the host.
set(wide ${CMAKE_CURRENT_LIST_DIR})
set(plans ${wide}/test_plan.cpp ${wide}/test_plan_clusters.cpp ${wide}/test_plan_folds.cpp ${wide}/test_plan_outputs.cpp
    ${wide}/test_plan_planes.cpp ${wide}/test_plan_rows.cpp)
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  plumb_planted(plumb_wide_tests ${plans} ${wide}/planted_wide.cu ${wide}/test_wide_faults.cpp)
else()
  plumb_kernel_program(plumb_wide_tests ${plans} $<TARGET_OBJECTS:plumb_catch_main>)
  plumb_discover_kernel_tests(plumb_wide_tests)
endif()

if(PLUMB_EMULATION)
  set(emulation ${wide}/emulation)
  plumb_emulated(plumb_emulated_wide WORDS ${emulation}/wide_words.hpp
    FOLDERS ${emulation}/shadows ${emulation} KERNELS ${emulation}/kernels_wide.cpp
                 TESTS ${emulation}/test_emulated.cpp ${emulation}/test_clusters.cpp ${emulation}/test_repacked_planes.cpp)

  # The named test must find that `was` is `is` in a source.
  function(plumb_faulty_wide source name was is test)
    set(target plumb_faulty_${source}_${name})
    plumb_damaged(${target} cuda_kernels/wide/${source}.cuh "${was}" "${is}" plumb_emulated_wide_cases
                  ${emulation}/kernels_wide.cpp)
    plumb_test_damaged("wide, emulated: ${name} is found in ${source}" ${target} "${test}")
  endfunction()
  plumb_faulty_wide(wide_region one_line "params.of_x.of[1].stride * region.line_elements"
    "region.line_elements" "*one image of a few folded channels")
  plumb_faulty_wide(wide_registers same_unit "(8 * pair | 16 * behind)" "(8 * pair)"
    "*one image that goes through registers")
  plumb_faulty_wide(wide_registers same_pixels " ^ 32 * below" ""
    "*one image that goes through registers")
  plumb_faulty_wide(wide_registers lost_product "filters + low_at, 1" "filters, 1"
    "*one image that goes through registers")
  plumb_faulty_wide(wide_params overflow "!(fabsf(sum) < __int_as_float(infinity_bits))" "sum != sum"
    "*one image that goes through registers")
  plumb_faulty_wide(wide_boxes not_waited "if (leads()) wait_for_store_reads<wide_slots - 1>()" "" "*outputs are boxes")
  plumb_faulty_wide(wide_boxes other_unit "number ^ static_cast<std::uintptr_t>(by)"
    "number + static_cast<std::uintptr_t>(by)" "*outputs are boxes")
  plumb_faulty_wide(wide_boxes other_pixels "warp_ % warps * wide_box_pixels + row" "row" "*outputs are boxes")
  plumb_faulty_wide(wide_cluster not_waited "sent_.wait_for_blocks(0);" "" "*random problems in clusters")
  plumb_faulty_wide(wide_cluster lost_sum "int split = 1;" "int split = 2;" "*random problems in clusters")
  plumb_faulty_wide(wide_cluster not_met "  meet_cluster();" "" "*random problems in clusters")
  plumb_faulty_wide(wide_planes not_waited "wait_for_copies<0>();" "" "*planes are repacked in vectors*")
  plumb_faulty_wide(wide_planes same_pixel "of_channel[c] >> 16 * j" "of_channel[c]" "*planes are repacked in vectors*")
  plumb_faulty_wide(wide_consumer same_terms "across ? wgmma_across_bytes : 32" "across ? 32 : 32"
    "*one image of planes under one tap")
endif()

# Checks the kernel part by part and times its tiles, on a machine with a GPU; built on demand.
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  foreach(program plumb_race_wide plumb_check_wide)
    add_executable(${program} EXCLUDE_FROM_ALL ${wide}/race.cu ${kernels}/primitives/check.cpp
                   ${kernels}/primitives/tensor_map.cpp)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${program} PRIVATE plumb_planners plumb::plumb plumb_compiler
                          plumb_fmt CUDA::cudart_static)
  endforeach()
  target_compile_definitions(plumb_check_wide PRIVATE PLUMB_BOUNDED_WAITS)
endif()
