# The depthwise kernels on the host, with faults planted that their tests must find; their planner against the times of
# cuts on a GPU; and the programs of scripts/fit_depthwise, built on demand.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(plans ${CMAKE_CURRENT_LIST_DIR}/plans)
set(costs ${CMAKE_CURRENT_LIST_DIR}/../cost)
if(TARGET plumb_app_support)  # apps are on, and with them what reads the records
  set(recorded ${plans}/recorded_cuts.cpp ${plans}/regrets.cpp ${costs}/records.cpp)
  plumb_kernel_program(plumb_depthwise_tests ${plans}/test_plans.cpp ${recorded} $<TARGET_OBJECTS:plumb_catch_main>)
  add_executable(plumb_fit_depthwise EXCLUDE_FROM_ALL ${plans}/fit_depthwise.cpp ${costs}/table_file.cpp ${recorded})
  target_include_directories(plumb_fit_depthwise PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_fit_depthwise PRIVATE plumb_planners plumb_compiler Eigen3::Eigen plumb_fmt)
  foreach(target plumb_depthwise_tests plumb_fit_depthwise)
    target_include_directories(${target} PRIVATE ${plans})
    target_link_libraries(${target} PRIVATE plumb_app_support)
  endforeach()
  target_compile_definitions(plumb_depthwise_tests PRIVATE PLUMB_RESULTS="${PROJECT_SOURCE_DIR}/docs/results")
  plumb_discover_kernel_tests(plumb_depthwise_tests)
endif()
if(NOT PLUMB_EMULATION)
  return()
endif()
set(of_types ${emulation}/kernels_f32.cpp ${emulation}/kernels_f16.cpp ${emulation}/kernels_bf16.cpp
    ${emulation}/kernels_f64.cpp)
# Warnings of kernels are the matter of their own compiler; g++ 12 fails on halves when it replaces aggregates by scalars.
set_source_files_properties(${of_types} PROPERTIES
  COMPILE_OPTIONS "-include;${fibers}/device_words.hpp;-w;${PLUMB_KERNEL_LEVEL_1};-fno-tree-sra")
plumb_emulated(plumb_emulated_depthwise FOLDERS ${emulation}/shadows ${emulation} KERNELS ${of_types}
               TESTS ${emulation}/test_depthwise.cpp)
plumb_emulated_cases(plumb_depthwise_floats FOLDERS ${emulation}/shadows ${emulation} TESTS ${emulation}/test_depthwise.cpp
                     DEFINES PLUMB_FLOATS_ALONE)

# The random problems must find that `was` is `is` in a kernel.
function(plumb_faulty_depthwise kernel name was is)
  string(REPLACE ring staged tests ${kernel})
  string(REGEX REPLACE "filters|finish|direct_rows" direct tests ${tests})
  set(target plumb_faulty_depthwise_${kernel}_${name})
  plumb_damaged(${target} cuda_kernels/depthwise/depthwise_${kernel}.cuh "${was}" "${is}"
                plumb_depthwise_floats ${emulation}/kernels_f32.cpp)
  plumb_test_damaged("depthwise emulated: ${name} is found in ${kernel}" ${target}
                     "depthwise emulated: random problems of ${tests}")
endfunction()
plumb_faulty_depthwise(march lost_step "if (!input.there) return" "if (!input.there || u == 2) return")
plumb_faulty_depthwise(march other_filter "channel % width, i % taps" "channel % width / 2 * 2, i % taps")
plumb_faulty_depthwise(march lost_vector "here && at_.q > 0" "here && at_.q > columns")
plumb_faulty_depthwise(march other_phase "by_phase.quotient * params.length * apart + by_phase.remainder" "by_phase.quotient * params.length * apart")
plumb_faulty_depthwise(planes border_twice "at_boundary(shape.columns.boundary, first_w + i"
  "at_boundary(Boundary::clamp, first_w + i")
plumb_faulty_depthwise(whole next_row "if (++at.column < params_.x_row.value()) continue" "if (++at.column <= params_.x_row.value()) continue")
plumb_faulty_depthwise(whole other_filter "weights = filters_ + plane * filter()" "weights = filters_ + plane / 2 * 2 * filter()")
plumb_faulty_depthwise(staged one_phase "params_.length * apart + row_phase" "params_.length * apart")
plumb_faulty_depthwise(staged lost_row "row >= begin_ &&" "row > begin_ &&")
plumb_faulty_depthwise(staged zero_times_inf "if (never[0] != 0)" "if (never[0] > 0)")
plumb_faulty_depthwise(direct border_read "static_cast<unsigned>(v + i) < static_cast<unsigned>" "v + i < static_cast<int>")
plumb_faulty_depthwise(finish zero_times_inf "if (never != 0)" "if (never > 0)")
plumb_faulty_depthwise(direct_rows border_read "static_cast<unsigned>(v + i) < static_cast<unsigned>" "v + i < static_cast<int>")
plumb_faulty_depthwise(direct_rows other_filter "w_[k_ * shape.w_k" "w_[k_ / 2 * 2 * shape.w_k")
plumb_faulty_depthwise(direct_rows lost_output "if (i < written_)" "if (i + 1 < written_)")
plumb_faulty_depthwise(filters other_filter "width + channel % width]" "width + (channel + 1) % width]")
plumb_faulty_depthwise(ring not_waited "wait_for_copies<depth - 2>()" "wait_for_copies<depth - 1>()")
plumb_faulty_depthwise(ring too_early "load(row == 0 ? last : row - params_.row_elements)" "load(row)")
plumb_faulty_depthwise(ring border_not_zero "to_[at + e] = Stored(0)" "to_[at + e] = Stored(1)")
plumb_faulty_depthwise(ring row_of_before "clear(at + i * params_.copy_elements);" ";")
plumb_faulty_depthwise(ring other_rows "left > last_there_" "left >= last_there_")
plumb_faulty_depthwise(ring lost_image "left_ += rows_ - image_unit" "left_ += rows_ - 2 * image_unit")
plumb_faulty_depthwise(channels lost_plane "if (active_ && d >= 0)" "if (active_ && d > 0)")

# The sweep over cuts, built on demand, with the objects of the family and not the module.
if(NOT PLUMB_HAVE_CUDA OR NOT TARGET plumb_cuda)
  return()
endif()
add_executable(plumb_sweep_depthwise EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/sweep.cu
  $<FILTER:$<TARGET_OBJECTS:plumb_cuda>,INCLUDE,depthwise/depthwise_|cost/depthwise.cpp|cost/kernel_model|cost/machine|cost/tables|primitives/check|conv/conv_support>)
target_include_directories(plumb_sweep_depthwise PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(plumb_sweep_depthwise PRIVATE plumb::plumb plumb_compiler plumb_fmt CUDA::cudart_static)
