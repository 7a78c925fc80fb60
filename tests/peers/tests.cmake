# Other libraries, played by fakes of their names in every way that such a file may be wrong, under the
# program as its users run it; and cuDNN's engines without a GPU.
enable_language(C)
set(fake_libraries ${CMAKE_CURRENT_BINARY_DIR}/libraries)

# fake_library(FILE NAME DEFINITION...): the fake of fake_FILE.c, in a folder of its own.
function(fake_library file soname name)
  add_library(plumb_fake_${name} MODULE ${CMAKE_CURRENT_LIST_DIR}/${file})
  set_target_properties(plumb_fake_${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${soname}
                        C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${fake_libraries}/${name})
  target_compile_definitions(plumb_fake_${name} PRIVATE ${ARGN})
endfunction()
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_works)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_newer FAKE_MAJOR=4)
fake_library(fake_dnnl.c libdnnl.so.2 dnnl_older FAKE_MAJOR=2 FAKE_MINOR=5)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_without FAKE_WITHOUT_EXECUTE)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_tbb FAKE_RUNTIME=4)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_openmp FAKE_RUNTIME=2)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_engine FAKE_ENGINE_STATUS=5)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_unimplemented FAKE_CONV_STATUS=3)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_memory FAKE_CONV_STATUS=1)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_execute FAKE_EXECUTE_STATUS=5)
fake_library(fake_dnnl.c libdnnl.so.3 dnnl_absurd "FAKE_SCRATCH_BYTES=((size_t)1<<60)")

fake_library(fake_cudnn.c libcudnn.so.9 cudnn_works)
fake_library(fake_cudnn.c libcudnn.so.9 cudnn_older FAKE_VERSION=8907)
fake_library(fake_cudnn.c libcudnn.so.9 cudnn_newer FAKE_VERSION=100000)
fake_library(fake_cudnn.c libcudnn.so.9 cudnn_without FAKE_WITHOUT_EXECUTE)

# What of cuDNN's code needs no GPU, which is in the CUDA module, compiled for its tests.
add_executable(plumb_peer_tests peers/test_cudnn.cpp support/main.cpp
  ${PROJECT_SOURCE_DIR}/peers/cudnn/choice.cpp ${PROJECT_SOURCE_DIR}/peers/cudnn/engine.cpp
  ${PROJECT_SOURCE_DIR}/peers/cudnn/library.cpp)
target_include_directories(plumb_peer_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_compile_definitions(plumb_peer_tests PRIVATE PLUMB_FAKE_LIBRARIES="${fake_libraries}")
target_link_libraries(plumb_peer_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      plumb_fmt ${CMAKE_DL_LIBS})
add_dependencies(plumb_peer_tests plumb_fake_cudnn_works plumb_fake_cudnn_older
                 plumb_fake_cudnn_newer plumb_fake_cudnn_without)
catch_discover_tests(plumb_peer_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

# The numbers of cuDNN's interface, held against its headers where they are.
find_path(PLUMB_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_path(PLUMB_CUDA_INCLUDE_DIR cuda_runtime.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
if(PLUMB_CUDNN_INCLUDE_DIR AND PLUMB_CUDA_INCLUDE_DIR)
  add_library(plumb_cudnn_abi OBJECT peers/cudnn_abi.cpp)
  target_include_directories(plumb_cudnn_abi PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(plumb_cudnn_abi SYSTEM PRIVATE ${PLUMB_CUDNN_INCLUDE_DIR}
                             ${PLUMB_CUDA_INCLUDE_DIR})
endif()

if(TARGET plumb_program)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/onednn.sh cases REGEX "^case_[a-z_]+\\(\\)")
  foreach(case IN LISTS cases)
    string(REGEX REPLACE "^case_([a-z_]+).*" "\\1" case ${case})
    add_test(NAME providers.${case}
             COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/onednn.sh $<TARGET_FILE:plumb_program> ${case})
    set_tests_properties(providers.${case} PROPERTIES SKIP_RETURN_CODE 77
                         ENVIRONMENT "PLUMB_FAKE_LIBRARIES=${fake_libraries}")
  endforeach()
  set_tests_properties(providers.tuned providers.tuned_gradient PROPERTIES RUN_SERIAL ON)
endif()

# PyTorch in double, over the C interface, where a Python has it.
if(TARGET plumb_program AND BUILD_SHARED_LIBS AND NOT PLUMB_SANITIZE)  # a sanitizer would have to be Python's too
  add_test(NAME "peers: PyTorch in double says the same"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_torch ${PROJECT_SOURCE_DIR} $<TARGET_FILE:plumb_program>
                   $<TARGET_FILE:plumb>)
  set_tests_properties("peers: PyTorch in double says the same" PROPERTIES SKIP_RETURN_CODE 4)
endif()
