# The depthwise kernels' sources compiled for the host, over the emulation of the field kernels' tests; and
# copies with a fault planted in each, which the same tests must find.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(plans ${CMAKE_CURRENT_LIST_DIR}/plans)
set(costs ${CMAKE_CURRENT_LIST_DIR}/../cost)
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(depthwise_planner
  ${kernels}/depthwise/depthwise_plan.cpp ${kernels}/depthwise/depthwise_march_plan.cpp
  ${kernels}/depthwise/depthwise_whole_plan.cpp ${kernels}/depthwise/depthwise_staged_plan.cpp ${kernels}/depthwise/depthwise_work.cpp ${kernels}/cost/depthwise.cpp ${kernels}/cost/kernel_model.cpp
  ${kernels}/cost/machine.cpp ${kernels}/cost/tables.cpp ${kernels}/conv/conv_support.cpp)

# The planner by itself, against the times of cuts on a GPU; and the program of scripts/fit_depthwise, built
# on demand.
if(TARGET plumb_app_support)  # apps are on, and with them what reads the records
  set(recorded ${plans}/recorded_cuts.cpp ${plans}/regrets.cpp ${costs}/records.cpp)
  add_executable(plumb_depthwise_tests ${emulation}/main.cpp ${plans}/test_plans.cpp ${recorded} ${depthwise_planner})
  target_link_libraries(plumb_depthwise_tests PRIVATE Catch2::Catch2)
  add_executable(plumb_fit_depthwise EXCLUDE_FROM_ALL ${plans}/fit_depthwise.cpp ${costs}/table_file.cpp ${recorded}
    ${depthwise_planner})
  target_link_libraries(plumb_fit_depthwise PRIVATE Eigen3::Eigen)
  foreach(target plumb_depthwise_tests plumb_fit_depthwise)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR} ${plans})
    target_link_libraries(${target} PRIVATE plumb_app_support plumb_compiler fmt::fmt-header-only)
  endforeach()
  target_compile_definitions(plumb_depthwise_tests PRIVATE PLUMB_RESULTS="${PROJECT_SOURCE_DIR}/docs/results")
  catch_discover_tests(plumb_depthwise_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()

set(fields_emulation ${CMAKE_CURRENT_LIST_DIR}/../fields/emulation)
if(PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  return()
endif()
function(plumb_emulated_depthwise target)
  set(of_types "")
  foreach(type IN LISTS ARGN)
    list(APPEND of_types ${emulation}/kernels_${type}.cpp)
  endforeach()
  add_executable(${target} ${of_types} ${fields_emulation}/emulation.cpp ${emulation}/main.cpp
    ${emulation}/test_depthwise.cpp ${depthwise_planner})
  target_include_directories(${target} BEFORE PRIVATE ${emulation}/shadows ${fields_emulation}/shadows
    ${fields_emulation} ${emulation})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 fmt::fmt-header-only)
  # Warnings of kernels are the matter of their own compiler; g++ 12 fails on halves when it replaces aggregates by scalars.
  set_source_files_properties(${of_types} PROPERTIES
    COMPILE_OPTIONS "-include;${fields_emulation}/device_words.hpp;-w;-O1;-fno-tree-sra")
endfunction()
plumb_emulated_depthwise(plumb_emulated_depthwise f32 f16 bf16 f64)
catch_discover_tests(plumb_emulated_depthwise DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

# A copy of a kernel in which `was` is `is` stands in front of it. The random problems must find that.
function(plumb_faulty_depthwise kernel name was is)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/faults/${kernel}_${name})
  plumb_damaged_source(cuda_kernels/depthwise/depthwise_${kernel}.cuh "${was}" "${is}" ${folder})
  set(target plumb_faulty_depthwise_${kernel}_${name})
  plumb_emulated_depthwise(${target} f32)
  target_include_directories(${target} BEFORE PRIVATE ${folder})
  target_compile_definitions(${target} PRIVATE PLUMB_FLOATS_ALONE)
  add_test(NAME "depthwise emulated: ${name} is found in ${kernel}"
    COMMAND ${target} "depthwise emulated: random problems of ${kernel}")
  set_tests_properties("depthwise emulated: ${name} is found in ${kernel}" PROPERTIES WILL_FAIL TRUE)
endfunction()
plumb_faulty_depthwise(march lost_step "if (!input.there) return" "if (!input.there || u == 2) return")
plumb_faulty_depthwise(march other_filter "channel % width, i % taps" "channel % width / 2 * 2, i % taps")
plumb_faulty_depthwise(march lost_vector "here && at_.q > 0" "here && at_.q > columns")
plumb_faulty_depthwise(march other_phase "by_phase.quotient * params.length * apart + by_phase.remainder" "by_phase.quotient * params.length * apart")
plumb_faulty_depthwise(planes border_twice "at_boundary(shape.columns.boundary, first_w + i"
  "at_boundary(Boundary::clamp, first_w + i")
plumb_faulty_depthwise(whole next_row "if (++at.column < params_.x_row.value()) continue" "if (++at.column <= params_.x_row.value()) continue")
plumb_faulty_depthwise(whole other_filter "weights = filters_ + plane * filter()" "weights = filters_ + plane / 2 * 2 * filter()")
plumb_faulty_depthwise(staged one_phase "p_ = first_p_ + row_phase" "p_ = first_p_")
plumb_faulty_depthwise(staged lost_row "(few_taps || (h >= 0" "(few_taps || (h > 0")
plumb_faulty_depthwise(staged other_filter "width + channel % width]" "width + (channel + 1) % width]")
plumb_faulty_depthwise(staged zero_times_inf "if (never[0] != 0)" "if (never[0] > 0)")
plumb_faulty_depthwise(channels lost_plane "if (active_ && d >= 0)" "if (active_ && d > 0)")

# The sweep over cuts, built on demand, with the objects of the family and not the module.
if(NOT PLUMB_HAVE_CUDA OR NOT TARGET plumb_cuda)
  return()
endif()
add_executable(plumb_sweep_depthwise EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/sweep.cu
  $<FILTER:$<TARGET_OBJECTS:plumb_cuda>,INCLUDE,depthwise|cost/kernel_model|cost/machine|cost/tables|primitives/check|conv/conv_support>)
target_include_directories(plumb_sweep_depthwise PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(plumb_sweep_depthwise PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only CUDA::cudart_static)
