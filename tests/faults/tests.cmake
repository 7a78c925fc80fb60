# Devices, drivers and modules that do not work: a fake CUDA module, broken ones beside it, and a
# fake driver under the real module. A static build loads no modules.
if(NOT BUILD_SHARED_LIBS)
  return()
endif()
set(fake_modules ${CMAKE_CURRENT_BINARY_DIR}/modules)

# fake_module(NAME DEFINITION...): the fake of fake_module.cpp in a folder of its own.
function(fake_module name)
  add_library(plumb_fake_${name} MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_module.cpp)
  set_target_properties(plumb_fake_${name} PROPERTIES OUTPUT_NAME plumb_cuda
                        LIBRARY_OUTPUT_DIRECTORY ${fake_modules}/${name})
  target_compile_definitions(plumb_fake_${name} PRIVATE ${ARGN})
  target_link_libraries(plumb_fake_${name} PRIVATE plumb::plumb plumb_compiler)
  set_property(GLOBAL APPEND PROPERTY PLUMB_FAKE_MODULES plumb_fake_${name})
endfunction()
fake_module(fake)
fake_module(other_version "PLUMB_FAKE_VERSION=\"0.0.9\"")
fake_module(other_abi PLUMB_FAKE_ABI=4711)
fake_module(no_symbol PLUMB_FAKE_SYMBOL=another_symbol)
if(NOT PLUMB_SANITIZE)  # their dlopen() is not thrown through
  fake_module(constructor_throws PLUMB_FAKE_CONSTRUCTOR_THROWS)
endif()
fake_module(third_party)  # that brings a library, for the tests of loading
# A module with a C++ runtime of its own, as where libstdc++ is linked statically.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++)
check_cxx_source_compiles("#include <string>
int main(int argc, char** argv) { return std::string(argv[argc - 1]) == argv[0]; }" PLUMB_STATIC_CXX_RUNTIME)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(PLUMB_STATIC_CXX_RUNTIME AND NOT PLUMB_SANITIZE)
  fake_module(own_runtime)
  target_link_options(plumb_fake_own_runtime PRIVATE -static-libstdc++
    LINKER:--version-script=${PROJECT_SOURCE_DIR}/backends/module.map)
endif()
fake_module(nothing PLUMB_FAKE_NOTHING)
fake_module(throws PLUMB_FAKE_THROWS=1)
fake_module(throws_words "PLUMB_FAKE_THROWS=std::runtime_error(\"a module's own words\")")
fake_module(throws_memory "PLUMB_FAKE_THROWS=std::bad_alloc()")
fake_module(throws_out_of_memory
            "PLUMB_FAKE_THROWS=Error(ErrorCode::out_of_memory,\"no memory for the driver\")")
fake_module(throws_reason
  "PLUMB_FAKE_THROWS=Error(ErrorCode::device_unavailable,\"no driver\",Reason::no_driver)")
fake_module(throws_no_reason
            "PLUMB_FAKE_THROWS=Error(ErrorCode::device_failure,\"it broke\")")
get_property(fakes GLOBAL PROPERTY PLUMB_FAKE_MODULES)

file(GLOB fault_sources CONFIGURE_DEPENDS faults/test_*.cpp)
add_executable(plumb_fault_tests faults/main.cpp ${fault_sources})
target_include_directories(plumb_fault_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(plumb_fault_tests PRIVATE PLUMB_FAKE_MODULES="${fake_modules}"
                           PLUMB_SOURCE="${PROJECT_SOURCE_DIR}")
if(PLUMB_SANITIZE)
  target_compile_definitions(plumb_fault_tests PRIVATE PLUMB_TEST_SANITIZED)
endif()
target_link_libraries(plumb_fault_tests PRIVATE plumb::plumb plumb_compiler Catch2::Catch2
                      OpenMP::OpenMP_CXX)
add_dependencies(plumb_fault_tests ${fakes})
catch_discover_tests(plumb_fault_tests DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)

if(TARGET plumb_program)
  foreach(case faults modules)
    program_test(${CMAKE_CURRENT_LIST_DIR}/program.sh ${case})
    set_tests_properties(program.${case} PROPERTIES ENVIRONMENT PLUMB_FAKE_MODULES=${fake_modules})
  endforeach()
endif()
if(NOT PLUMB_HAVE_CUDA OR NOT TARGET plumb_program)
  return()
endif()

add_library(plumb_fake_driver SHARED faults/fake_driver.cpp)
set_target_properties(plumb_fake_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/driver)
target_link_libraries(plumb_fake_driver PRIVATE plumb_compiler)

# The CUDA backend as it would be if it had been built for chips that no test machine has: the probe
# that it asks a device about is compiled for those alone.
add_library(plumb_other_probe OBJECT ${PROJECT_SOURCE_DIR}/cuda_kernels/primitives/device_code.cu)
set_target_properties(plumb_other_probe PROPERTIES CUDA_ARCHITECTURES 75-real)
target_include_directories(plumb_other_probe PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_other_probe PRIVATE plumb::plumb plumb_compiler)
add_library(plumb_other_architecture MODULE
  $<FILTER:$<TARGET_OBJECTS:plumb_cuda>,EXCLUDE,device_code> $<TARGET_OBJECTS:plumb_other_probe>)
set_target_properties(plumb_other_architecture PROPERTIES
  OUTPUT_NAME plumb_cuda LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/other_architecture)
target_link_libraries(plumb_other_architecture PRIVATE plumb::plumb plumb_compiler
                      CUDA::cudart_static)

foreach(case drivers gpu_faults)
  program_test(${CMAKE_CURRENT_LIST_DIR}/program.sh ${case})
endforeach()
set(fake_driver ${CMAKE_CURRENT_BINARY_DIR}/driver)
set_tests_properties(program.drivers PROPERTIES ENVIRONMENT
  "PLUMB_FAKE_DRIVER_FOLDER=${fake_driver};PLUMB_CUDA_STUB=${CUDAToolkit_LIBRARY_DIR}/stubs/libcuda.so")
set_tests_properties(program.gpu_faults PROPERTIES ENVIRONMENT
  PLUMB_OTHER_ARCHITECTURE=${CMAKE_CURRENT_BINARY_DIR}/other_architecture)
# Hidden from whoever runs all tests in one process: the first takes the whole device's memory, the
# second breaks the process's device for good.
foreach(case memory sticky)
  add_test(NAME "cuda: a device that fails (${case})" COMMAND plumb_tests "[${case}]")
  set_tests_properties("cuda: a device that fails (${case})" PROPERTIES
                       SKIP_RETURN_CODE 4 RUN_SERIAL ON)
endforeach()
