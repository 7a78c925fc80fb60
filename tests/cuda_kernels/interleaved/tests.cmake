# The interleaved kernels' sources compiled for the host, where threads are fibers
# (tests/cuda_kernels/fields): a program of its own, since the module has functions of the same names.
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  set(interleaved ${CMAKE_CURRENT_LIST_DIR}/emulation)
  set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
  function(plumb_emulated_interleaved target)
    set(tests ${CMAKE_CURRENT_SOURCE_DIR}/cuda_kernels)
    add_executable(${target}
      ${interleaved}/kernels_interleaved.cpp ${interleaved}/test_emulated_interleaved.cpp
      ${tests}/fields/emulation/emulation.cpp ${tests}/wide/main.cpp
      ${kernels}/interleaved/interleaved.cpp ${kernels}/conv/conv_support.cpp
      ${kernels}/cost/interleaved.cpp ${kernels}/cost/kernel_model.cpp ${kernels}/cost/machine.cpp
      ${kernels}/cost/scattered.cpp ${kernels}/cost/tables.cpp)
    # Their headers take the place of the few that speak to the device.
    target_include_directories(${target} BEFORE PRIVATE
      ${interleaved}/shadows ${tests}/toeplitz/emulation/shadows ${tests}/wide/emulation/shadows
      ${tests}/fields/emulation/shadows ${interleaved} ${tests}/fields/emulation)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                          fmt::fmt-header-only)
    target_compile_definitions(${target} PRIVATE PLUMB_CUDA_SM90A)
  endfunction()
  plumb_emulated_interleaved(plumb_emulated_interleaved)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${interleaved}/kernels_interleaved.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${interleaved}/interleaved_words.hpp;-w;-O1;-fno-strict-aliasing")
  catch_discover_tests(plumb_emulated_interleaved DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

  # A copy of the source in which `was` is `is` stands in front of it. The named test must find that.
  function(plumb_faulty_interleaved name was is test)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/faults/interleaved_pixels_${name})
    plumb_damaged_source(cuda_kernels/interleaved/interleaved_pixels.cuh "${was}" "${is}" ${folder})
    set(target plumb_faulty_interleaved_${name})
    plumb_emulated_interleaved(${target})
    target_include_directories(${target} BEFORE PRIVATE ${folder})
    add_test(NAME "interleaved, emulated: ${name} is found" COMMAND ${target} "${test}")
    set_tests_properties("interleaved, emulated: ${name} is found" PROPERTIES WILL_FAIL TRUE)
  endfunction()
  plumb_faulty_interleaved(filter_shifted "(i % 4 + j) * 16 * stage_pitch" "(i % 4 + 1 - j) * 16 * stage_pitch"
    "*filters innermost*")
  plumb_faulty_interleaved(other_pixel "uint4*>(outputs[i])" "uint4*>(outputs[1 - i])"
    "*filters innermost*")
  plumb_faulty_interleaved(turned_fours "uint4{of.z" "uint4{of.x"
    "*filters innermost*")
  plumb_faulty_interleaved(lost_row "vector.below < pair.rows_left" "vector.below + 1 < pair.rows_left"
    "*filters innermost*")
  plumb_faulty_interleaved(not_again "if (flags == 0) continue" "if (flags >= 0) continue"
    "*what halves do not hold*")
endif()
