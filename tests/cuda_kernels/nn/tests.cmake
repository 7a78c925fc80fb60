# Copies' kernels on the host, with faults planted that their tests must find.
if(PLUMB_EMULATION)
  set(padding ${CMAKE_CURRENT_LIST_DIR}/emulation)
  set(halves ${CMAKE_CURRENT_LIST_DIR}/../wide/emulation)
  plumb_emulated(plumb_emulated_pad WORDS ${halves}/wide_words.hpp
    FOLDERS ${halves}/shadows ${padding}
    KERNELS ${padding}/kernels_pad.cpp ${padding}/kernels_join.cpp ${padding}/kernels_sum.cpp
    TESTS ${padding}/test_emulated_pad.cpp ${padding}/test_emulated_join.cpp ${padding}/test_emulated_sum.cpp)

  # The named test must find that `was` is `is`.
  function(plumb_faulty_operator name source was is test)
    set(target plumb_faulty_${name})
    plumb_damaged(${target} ${source} "${was}" "${is}" plumb_emulated_pad_cases
                  ${padding}/kernels_pad.cpp ${padding}/kernels_join.cpp ${padding}/kernels_sum.cpp)
    plumb_test_damaged("${name} is found" ${target} "${test}")
  endfunction()
  function(plumb_faulty_pad name was is)
    plumb_faulty_operator(pad_${name} cuda_kernels/nn/transpose.cuh "${was}" "${is}" "*random copies*")
  endfunction()
  function(plumb_faulty_join name was is)
    plumb_faulty_operator(join_${name} cuda_kernels/nn/join_phases.cu "${was}" "${is}" "*random phases*")
  endfunction()
  plumb_faulty_pad(lost_column "column < params.along_x && row" "column + 1 < params.along_x && row")
  plumb_faulty_pad(other_tile "x_begin = x_tile * side" "x_begin = y_tile * side")
  plumb_faulty_pad(vectors_anywhere "along % width == 0 &&" "along != 0 &&")
  plumb_faulty_pad(other_neighbour "staged[(y_column + j)" "staged[(y_column + (j ^ 1) % y_width)")
  plumb_faulty_join(next_phase "phase[2] = 0" "phase[2] = 1")
  plumb_faulty_join(other_bias "params.channels_run ? j : 0" "params.channels_run ? 0 : j % 1")
  plumb_faulty_join(not_again "if (value != value) params.y" "if (value == value) params.y")
  plumb_faulty_join(groups_met "call.problem.groups % width == 0 &&" "call.problem.groups % width >= 0 &&")
  plumb_faulty_operator(sum_lost_line cuda_kernels/nn/sum_channels.cu "i < staged_lines<Stored>; ++i) sum" "i < staged_lines<Stored> - 1; ++i) sum"
                        "*random channels*")
endif()
