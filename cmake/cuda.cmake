# Sets PLUMB_HAVE_CUDA. Without nvcc the library is built for the CPU alone, and says so; with
# PLUMB_CUDA=NATIVE also without a GPU, and where there is one the kernels are built for its chip alone.
set(PLUMB_HAVE_CUDA OFF)
if(NOT PLUMB_CUDA)
  message(STATUS "CUDA backend: off (PLUMB_CUDA=OFF)")
  return()
endif()

# plumb_native_architectures(<variable> <why>): the chips of this machine's GPUs, as
# CMAKE_CUDA_ARCHITECTURES takes them, or nothing and the reason. The driver is asked anew by each run
# of CMake: a GPU may come and go.
function(plumb_native_architectures variable why)
  set(program ${PROJECT_BINARY_DIR}/CMakeFiles/plumb_gpu_architectures)
  try_compile(compiled ${PROJECT_BINARY_DIR}/CMakeFiles/gpu_architectures
              ${PROJECT_SOURCE_DIR}/cmake/gpu_architectures.cpp
              LINK_LIBRARIES ${CMAKE_DL_LIBS} CXX_STANDARD 20 OUTPUT_VARIABLE log COPY_FILE ${program})
  unset(compiled CACHE)
  if(NOT EXISTS ${program})
    message(FATAL_ERROR "cmake/gpu_architectures.cpp does not compile:\n${log}")
  endif()
  execute_process(COMMAND ${program} RESULT_VARIABLE status OUTPUT_VARIABLE chips ERROR_VARIABLE reason
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(${variable} "" PARENT_SCOPE)
    set(${why} "${reason}" PARENT_SCOPE)
    return()
  endif()
  # A chip newer than this nvcc compiles the PTX of compute_80 at start.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known)
  set(architectures "")
  foreach(chip IN LISTS chips)
    string(REGEX MATCH "^[0-9]+" number ${chip})
    if(known MATCHES "sm_${number}[^0-9]")
      list(APPEND architectures ${chip}-real)
    else()
      list(APPEND architectures 80)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(${variable} "${architectures}" PARENT_SCOPE)
endfunction()

include(cmake/find_compiler.cmake)
plumb_find_compiler(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA backend: off, no nvcc found; building for the CPU alone")
  return()
endif()
if(PLUMB_CUDA STREQUAL "NATIVE")
  plumb_native_architectures(native why_none)
  if(NOT native)
    message(STATUS "CUDA backend: off, no GPU answers (${why_none}); building for the CPU alone")
    return()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${native})
elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  # Machine code for sm_80 and sm_90a; every newer chip compiles the PTX of compute_80 at start.
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
endif()
enable_language(CUDA)
if(CMAKE_VERSION VERSION_LESS 3.26)  # does not know yet that nvcc compiles C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
include(CheckCompilerFlag)
# Machine code is most of a module's size; the driver unpacks what is used (nvcc 12.8 and newer).
check_compiler_flag(CUDA "--compress-mode=size" PLUMB_NVCC_COMPRESSES)
if(PLUMB_NVCC_COMPRESSES)
  target_compile_options(plumb_compiler INTERFACE
                         "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
endif()
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(PLUMB_HAVE_CUDA ON)
message(STATUS "CUDA backend: ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
