# The field kernels on the host, with faults planted in the order of their sums.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(fields ${PROJECT_SOURCE_DIR}/cuda_kernels/fields)
if(PLUMB_EMULATION)
  # Warnings of kernels are the matter of their own compiler.
  set_source_files_properties(${emulation}/kernels_f32.cpp ${emulation}/kernels_f64.cpp
    ${emulation}/weights_tree_on_host.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${emulation}/device_words.hpp;-w;${PLUMB_KERNEL_LEVEL_1}")
  plumb_emulated(plumb_emulated_fields
    KERNELS ${emulation}/kernels_f32.cpp ${emulation}/kernels_f64.cpp ${emulation}/weights_tree_on_host.cpp
    TESTS ${emulation}/test_bits.cpp ${emulation}/test_emulation.cpp ${emulation}/test_fields.cpp
          ${emulation}/test_order.cpp)
  plumb_emulated_cases(plumb_fields_floats TESTS ${emulation}/test_order.cpp DEFINES PLUMB_FLOATS_ALONE)

  # In a source `was` is `is`; and in another, where that is given too. Sums are right but for their bits, which the
  # named test must find.
  function(plumb_faulty_fields name test source was is)
    set(target plumb_faulty_fields_${name})
    plumb_damaged(${target} cuda_kernels/fields/${source}.cuh "${was}" "${is}" plumb_fields_floats
                  ${emulation}/kernels_f32.cpp)
    if(ARGC GREATER 5)
      plumb_damaged_source(cuda_kernels/fields/${ARGV5}.cuh "${ARGV6}" "${ARGV7}"
                           ${CMAKE_CURRENT_BINARY_DIR}/faults/${target})
    endif()
    plumb_test_damaged("fields in order, emulated: ${name} is found" ${target} "${test}")
  endfunction()
  plumb_faulty_fields(queue_bias_inside "*every cut of the queue*"
    field_queue "if (plane >= Shape::taps - 1) writer"
    "for (int k = 0; k < Shape::filters; ++k) for (auto& row : sums.of[k][0]) for (Scalar& sum : row) sum += bias[k]; if (plane >= Shape::taps - 1) writer"
    field_queue_output " + bias;" ";")
  plumb_faulty_fields(queue_minus_zero "*every cut of the queue*"
    field_queue "epilogue.bias[k + i] + Scalar{0}" "epilogue.bias[k + i]")
  plumb_faulty_fields(columns_minus_zero "*kernels that claim it*"
    field_columns "sums[i] += bias_;" "if (bias_ != 0) sums[i] += bias_;")
  plumb_faulty_fields(tile_by_chunks "*kernels that claim it*"
    field_launch "tile_fields<Scalar, true>" "tile_fields<Scalar, false>")
endif()

# The sweep over plans, built on demand, with the kernels themselves and not the module.
if(NOT PLUMB_HAVE_CUDA)
  return()
endif()
add_executable(plumb_sweep_fields EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/sweep.cu
  ${fields}/fields_f32.cu ${fields}/fields_f64.cu
  ${PROJECT_SOURCE_DIR}/cuda_kernels/primitives/check.cpp
  ${PROJECT_SOURCE_DIR}/cuda_kernels/primitives/tensor_map.cpp)
target_include_directories(plumb_sweep_fields PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_sweep_fields PRIVATE plumb_planners plumb::plumb plumb_compiler plumb_fmt CUDA::cudart_static)
# The check reads the extents of a problem, which are std::array.
target_compile_options(plumb_sweep_fields PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
