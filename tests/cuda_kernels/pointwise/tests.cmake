# The kernel of pointwise/ on the host, with the emulation of wide/, and its planner; and copies with faults in them.
set(pointwise ${CMAKE_CURRENT_LIST_DIR})
set(halves ${pointwise}/../wide/emulation)
if(PLUMB_EMULATION)
  set(emulation ${pointwise}/emulation)
  plumb_emulated(plumb_emulated_pointwise WORDS ${emulation}/pointwise_words.hpp
    FOLDERS ${emulation}/shadows ${halves}/shadows ${emulation}
    KERNELS ${emulation}/kernels_pointwise.cpp TESTS ${emulation}/test_emulated_pointwise.cpp ${pointwise}/test_pointwise_plan.cpp)
  plumb_emulated(plumb_emulated_pointwise_taps WORDS ${emulation}/pointwise_words.hpp
    FOLDERS ${emulation}/shadows ${halves}/shadows ${emulation} KERNELS ${emulation}/kernels_pointwise_taps.cpp
    TESTS ${emulation}/test_emulated_pointwise_taps.cpp ${pointwise}/test_pointwise_taps_plan.cpp)

  # The named test must find that `was` is `is` in a source.
  function(plumb_faulty_pointwise source name was is test)
    set(target plumb_faulty_pointwise_${name})
    plumb_damaged(${target} cuda_kernels/pointwise/${source} "${was}" "${is}" plumb_emulated_pointwise_cases
                  ${emulation}/kernels_pointwise.cpp)
    plumb_test_damaged("pointwise, emulated: ${name} is found in ${source}" ${target} "${test}")
  endfunction()
  plumb_faulty_pointwise(pointwise.hpp exchanged_filters "+ lane / 4 % 2" "+ 1 - lane / 4 % 2"
    "*one image of every layout")
  plumb_faulty_pointwise(pointwise_products.cuh lost_plane "(i * planes + plane)" "(i * planes)"
    "*three products of one image")
  plumb_faulty_pointwise(pointwise_store.cuh overflow "!(fabsf(sum) < __int_as_float(infinity_bits))" "sum != sum"
    "*three products of one image")

  # The same of few terms.
  function(plumb_faulty_taps source name was is)
    set(target plumb_faulty_pointwise_taps_${name})
    plumb_damaged(${target} cuda_kernels/pointwise/${source} "${was}" "${is}" plumb_emulated_pointwise_taps_cases
                  ${emulation}/kernels_pointwise_taps.cpp)
    plumb_test_damaged("pointwise_taps, emulated: ${name} is found in ${source}" ${target} "*random problems")
  endfunction()
  plumb_faulty_taps(pointwise_taps_store.cuh unshifted_half "if (odd == 0 || shifted == 0) return of" "if (true) return of")
  plumb_faulty_taps(pointwise_taps_kernel.cuh padding_not_mended "!Arithmetic::splits && !params_.images.padded" "!Arithmetic::splits")
endif()
if(PLUMB_HAVE_CUDA)
  plumb_planted(plumb_pointwise_tests ${pointwise}/planted_pointwise.cu ${pointwise}/test_pointwise_faults.cpp)
  target_include_directories(plumb_pointwise_tests PRIVATE ${pointwise})
endif()
