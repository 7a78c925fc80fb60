# Copies' kernels on the host, with faults planted that their tests must find.
if(PLUMB_EMULATION)
  set(padding ${CMAKE_CURRENT_LIST_DIR}/emulation)
  set(halves ${CMAKE_CURRENT_LIST_DIR}/../wide/emulation)
  # Warnings of kernels are the matter of their own compiler, which also lets bits change their type.
  set_source_files_properties(${padding}/kernels_pad.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${halves}/wide_words.hpp;-w;-O1;-fno-strict-aliasing")
  plumb_emulated(plumb_emulated_pad FOLDERS ${halves}/shadows ${padding}
    KERNELS ${padding}/kernels_pad.cpp TESTS ${padding}/test_emulated_pad.cpp)

  # The random copies must find that `was` is `is`.
  function(plumb_faulty_pad name was is)
    set(target plumb_faulty_pad_${name})
    plumb_damaged(${target} cuda_kernels/nn/transpose.cuh "${was}" "${is}" plumb_emulated_pad_cases
                  ${padding}/kernels_pad.cpp)
    plumb_test_damaged("pad, emulated: ${name} is found" ${target} "*random copies*")
  endfunction()
  plumb_faulty_pad(lost_column "column < params.along_x && row" "column + 1 < params.along_x && row")
  plumb_faulty_pad(other_tile "x_begin = x_tile * side" "x_begin = y_tile * side")
  plumb_faulty_pad(vectors_anywhere "along % width == 0 &&" "along != 0 &&")
  plumb_faulty_pad(other_neighbour "staged[(y_column + j)" "staged[(y_column + (j ^ 1) % y_width)")
endif()
