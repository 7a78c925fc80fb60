# What CMake makes of a machine where a compiler or a GPU comes later, or goes.
if(PLUMB_SANITIZE)  # configures the same
  return()
endif()

# Where there is no compiler CMake's variable says NOTFOUND; the test is told nothing then.
foreach(language IN ITEMS Fortran CUDA)
  set(build_test_${language} "")
  if(CMAKE_${language}_COMPILER)
    set(build_test_${language} ${CMAKE_${language}_COMPILER})
  endif()
endforeach()

# build_test(<case of build/run> <name>)
function(build_test case name)
  add_test(NAME "build: ${name}" COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/run ${case})
  set_tests_properties("build: ${name}" PROPERTIES SKIP_RETURN_CODE 4 TIMEOUT 300
    ENVIRONMENT "PLUMB_SOURCE=${PROJECT_SOURCE_DIR};PLUMB_CXX=${CMAKE_CXX_COMPILER};PLUMB_FC=${build_test_Fortran};PLUMB_NVCC=${build_test_CUDA};PLUMB_GENERATOR=${CMAKE_GENERATOR}")
endfunction()
build_test(demo_alone "the preset demo makes the program and needs no Catch2")
build_test(fortran_later "a Fortran compiler that is installed later is found")
build_test(nvcc_later "an nvcc that is installed later is found")
build_test(gpus "the driver is asked for the chips of this machine's GPUs")
build_test(native "PLUMB_CUDA=NATIVE builds kernels for the GPU that answers alone")
build_test(ladder "PLUMB_LADDER=OFF leaves the ladder of techniques out")
