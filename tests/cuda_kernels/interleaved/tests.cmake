# The interleaved kernels on the host, with faults planted that their tests must find.
if(PLUMB_EMULATION)
  set(interleaved ${CMAKE_CURRENT_LIST_DIR}/emulation)
  plumb_emulated(plumb_emulated_interleaved WORDS ${interleaved}/interleaved_words.hpp
    FOLDERS ${interleaved}/shadows ${CMAKE_CURRENT_LIST_DIR}/../toeplitz/emulation/shadows
            ${CMAKE_CURRENT_LIST_DIR}/../wide/emulation/shadows ${interleaved}
    KERNELS ${interleaved}/kernels_interleaved.cpp TESTS ${interleaved}/test_emulated_interleaved.cpp)

  # The named test must find that `was` is `is` in a header of the folder.
  function(plumb_faulty_interleaved header name was is test)
    set(target plumb_faulty_interleaved_${name})
    plumb_damaged(${target} cuda_kernels/interleaved/interleaved_${header}.cuh "${was}" "${is}"
                  plumb_emulated_interleaved_cases ${interleaved}/kernels_interleaved.cpp)
    plumb_test_damaged("interleaved, emulated: ${name} is found" ${target} "${test}")
  endfunction()
  plumb_faulty_interleaved(pixels filter_shifted "(i % 4 + j) * 16 * stage_pitch" "(i % 4 + 1 - j) * 16 * stage_pitch"
    "*filters innermost*")
  plumb_faulty_interleaved(pixels other_pixel "uint4*>(outputs[i])" "uint4*>(outputs[1 - i])"
    "*filters innermost*")
  plumb_faulty_interleaved(pixels turned_fours "uint4{of.z" "uint4{of.x"
    "*filters innermost*")
  plumb_faulty_interleaved(pixels lost_row "vector.below < pair.rows_left" "vector.below + 1 < pair.rows_left"
    "*filters innermost*")
  plumb_faulty_interleaved(pixels not_again "if (flags == 0) continue" "if (flags >= 0) continue"
    "*what halves do not hold*")
  plumb_faulty_interleaved(chunks stale_scale "sums.scale(factor)" "sums.scale(1)"
    "*chunks of other magnitudes*")
  plumb_faulty_interleaved(chunks lost_flags "flags |= of_flags" "flags = of_flags"
    "*one of the chunks*")
  plumb_faulty_interleaved(chunks first_filters "chunk * (params.chunk_bytes / 16)" "0 * (params.chunk_bytes / 16)"
    "*channels in chunks*")
  plumb_faulty_interleaved(chunks first_pass "x_at + of_tile_pass" "x_at + 0 * of_tile_pass"
    "*channels in chunks*")
  plumb_faulty_interleaved(kernel channels_twice "c >= chunk * params.chunk_channels" "c >= 0"
    "*channels in chunks*")
  plumb_faulty_interleaved(producer channels_of_first "item.first_c * step.c" "0 * step.c"
    "*channels in chunks*")
  plumb_faulty_interleaved(kernel one_phase "params.taps_h.tap(below," "params.taps_h.tap(0 * below,"
    "*strides of backward data*")
  plumb_faulty_interleaved(again other_phase "first((output + before) % up)" "first(output % up)"
    "*strides of backward data*")
endif()
