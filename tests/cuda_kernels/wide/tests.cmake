# The wide kernel's planner by itself, and copies of the kernel with faults in them: a program of its
# own, since the module has functions of the same names.
set(wide ${CMAKE_CURRENT_LIST_DIR})
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(wide_sources
  ${kernels}/wide/wide_layouts.cpp ${kernels}/wide/wide_plan.cpp ${kernels}/conv/conv_support.cpp ${kernels}/cost/kernel_model.cpp
  ${kernels}/cost/machine.cpp ${kernels}/cost/tables.cpp ${kernels}/cost/wide.cpp)
add_executable(plumb_wide_tests ${wide}/main.cpp ${wide}/test_plan.cpp ${wide}/test_plan_folds.cpp
               ${wide_sources})
target_include_directories(plumb_wide_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_wide_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      fmt::fmt-header-only)
# The plan of a device with wgmma can be tested in any build.
target_compile_definitions(plumb_wide_tests PRIVATE PLUMB_CUDA_SM90A)
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  target_sources(plumb_wide_tests PRIVATE ${wide}/planted_wide.cu ${wide}/test_wide_faults.cpp
                 ${kernels}/primitives/check.cpp ${kernels}/primitives/tensor_map.cpp)
  target_link_libraries(plumb_wide_tests PRIVATE CUDA::cudart_static)
  plumb_runs_with_modules(plumb_wide_tests)
endif()
catch_discover_tests(plumb_wide_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

# The kernel's sources compiled for the host, where threads are fibers (tests/cuda_kernels/fields).
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  set(emulation ${wide}/emulation)
  set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
  function(plumb_emulated_wide target)
    add_executable(${target} ${emulation}/kernels_wide.cpp ${emulation}/test_emulated.cpp
                   ${fibers}/emulation.cpp ${wide}/main.cpp ${wide_sources})
    # Their headers take the place of the few that speak to the device.
    target_include_directories(${target} BEFORE PRIVATE
      ${emulation}/shadows ${fibers}/shadows ${emulation} ${fibers})
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                          fmt::fmt-header-only)
    target_compile_definitions(${target} PRIVATE PLUMB_CUDA_SM90A)
  endfunction()
  plumb_emulated_wide(plumb_emulated_wide)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${emulation}/kernels_wide.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${emulation}/wide_words.hpp;-w;-O1;-fno-strict-aliasing")
  catch_discover_tests(plumb_emulated_wide DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

  # A copy of a source in which `was` is `is` stands in front of it. The named test must find that.
  function(plumb_faulty_wide source name was is test)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/faults/${source}_${name})
    plumb_damaged_source(cuda_kernels/wide/${source}.cuh "${was}" "${is}" ${folder})
    set(target plumb_faulty_${source}_${name})
    plumb_emulated_wide(${target})
    target_include_directories(${target} BEFORE PRIVATE ${folder})
    add_test(NAME "wide, emulated: ${name} is found in ${source}" COMMAND ${target} "${test}")
    set_tests_properties("wide, emulated: ${name} is found in ${source}" PROPERTIES WILL_FAIL TRUE)
  endfunction()
  plumb_faulty_wide(wide_region one_line "params.of_x.of[1].stride * region.line_elements"
    "region.line_elements" "*one image of a few folded channels")
  plumb_faulty_wide(wide_consumer same_terms "across ? wgmma_across_bytes : 32" "across ? 32 : 32"
    "*one image of planes under one tap")
endif()

# Checks the kernel part by part and times its tiles, on a machine with a GPU; built on demand.
if(PLUMB_HAVE_CUDA AND CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
  foreach(program plumb_race_wide plumb_check_wide)
    add_executable(${program} EXCLUDE_FROM_ALL ${wide}/race.cu ${wide_sources}
                   ${kernels}/primitives/check.cpp ${kernels}/primitives/tensor_map.cpp)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${program} PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only
                          CUDA::cudart_static)
    target_compile_definitions(${program} PRIVATE PLUMB_CUDA_SM90A)
  endforeach()
  target_compile_definitions(plumb_check_wide PRIVATE PLUMB_BOUNDED_WAITS)
endif()
