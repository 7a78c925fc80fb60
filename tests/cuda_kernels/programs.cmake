# The programs of the kernels' folders, each apart because the module has functions of the same names: planners by
# themselves, the kernels' sources compiled for the host, where threads are fibers, and copies with planted faults. What
# several of them have is compiled once.
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
set(fibers ${CMAKE_CURRENT_LIST_DIR}/fields/emulation)

# Planners and costs, which know no device. A program takes what it calls.
file(GLOB planners CONFIGURE_DEPENDS ${kernels}/conv/*.cpp ${kernels}/cost/*.cpp ${kernels}/depthwise/*.cpp
     ${kernels}/fields/field_*.cpp ${kernels}/interleaved/*.cpp ${kernels}/wide/*.cpp ${kernels}/wide_patch/*.cpp ${kernels}/*/*_plan.cpp)
list(REMOVE_DUPLICATES planners)
add_library(plumb_planners STATIC EXCLUDE_FROM_ALL ${planners})
target_include_directories(plumb_planners PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_planners PRIVATE plumb::plumb plumb_compiler plumb_fmt)
# The plan of a device with wgmma can be tested in any build.
target_compile_definitions(plumb_planners PRIVATE PLUMB_CUDA_SM90A)

# plumb_kernel_program(<target> <source>...): Catch2 tests with planners.
function(plumb_kernel_program target)
  add_executable(${target} ${ARGN})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE plumb_planners plumb::plumb plumb_compiler Catch2::Catch2 plumb_fmt)
endfunction()
add_library(plumb_catch_main OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp)
target_include_directories(plumb_catch_main PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(plumb_catch_main PRIVATE plumb::plumb plumb_compiler Catch2::Catch2)

function(plumb_discover_kernel_tests target)
  catch_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endfunction()

# plumb_planted(<target> <source>...): copies of a kernel with faults in them, on a machine with a GPU.
function(plumb_planted target)
  plumb_kernel_program(${target} ${ARGN} $<TARGET_OBJECTS:plumb_catch_main> ${kernels}/primitives/check.cpp
                       ${kernels}/primitives/tensor_map.cpp)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  plumb_runs_with_modules(${target})
  plumb_discover_kernel_tests(${target})
endfunction()

# ThreadSanitizer follows no fibers.
set(PLUMB_EMULATION ON)
if(PLUMB_SANITIZE MATCHES thread)
  set(PLUMB_EMULATION OFF)
  return()
endif()
add_library(plumb_fibers OBJECT ${fibers}/emulation.cpp)
target_include_directories(plumb_fibers PRIVATE ${fibers} ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_fibers PRIVATE plumb::plumb plumb_compiler)

# plumb_emulated_cases(<name> FOLDERS <folder>... TESTS <source>... [DEFINES <definition>...]): tests of kernels on fibers.
# Headers in the folders take the place of the few that speak to the device.
function(plumb_emulated_cases name)
  cmake_parse_arguments(PARSE_ARGV 1 of "" "" "FOLDERS;TESTS;DEFINES")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${of_TESTS})
  target_include_directories(${name} PRIVATE ${of_FOLDERS} ${fibers}/shadows ${fibers}
                             ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE plumb::plumb plumb_compiler Catch2::Catch2 plumb_fmt)
  target_compile_definitions(${name} PRIVATE ${of_DEFINES})
endfunction()

# How kernels are optimised. Copies with a fault are not: each takes a fourth of the time to compile, and its test ends at
# the first failure.
set(PLUMB_KERNEL_LEVEL_1 $<IF:$<BOOL:$<TARGET_PROPERTY:PLUMB_DAMAGED>>,-O0,-O1>)
set(PLUMB_KERNEL_LEVEL_2 $<IF:$<BOOL:$<TARGET_PROPERTY:PLUMB_DAMAGED>>,-O0,-O2>)

# plumb_emulated_program(<target> <cases> <source>...): the program of cases and kernels.
function(plumb_emulated_program target cases)
  add_executable(${target} ${ARGN} $<TARGET_OBJECTS:${cases}> $<TARGET_OBJECTS:plumb_fibers>
                 $<TARGET_OBJECTS:plumb_catch_main>)
  target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:${cases},INCLUDE_DIRECTORIES>)
  target_link_libraries(${target} PRIVATE plumb_planners plumb::plumb plumb_compiler Catch2::Catch2 plumb_fmt)
endfunction()

# plumb_emulated(<target> [WORDS <header>] FOLDERS <folder>... KERNELS <source>... TESTS <source>...): both, and ctest's
# list of its tests. The header stands in front of kernels that have words for the device in them.
function(plumb_emulated target)
  cmake_parse_arguments(PARSE_ARGV 1 of "" "WORDS" "FOLDERS;KERNELS;TESTS")
  if(of_WORDS)  # warnings of kernels are the matter of their own compiler, which also lets bits change their type
    set_property(SOURCE ${of_KERNELS} APPEND PROPERTY COMPILE_OPTIONS -include ${of_WORDS} -w ${PLUMB_KERNEL_LEVEL_2} -fno-strict-aliasing)
  endif()
  plumb_emulated_cases(${target}_cases FOLDERS ${of_FOLDERS} TESTS ${of_TESTS})
  plumb_emulated_program(${target} ${target}_cases ${of_KERNELS})
  if(PLUMB_SANITIZE)  # half the time of compiling a kernel is UndefinedBehaviorSanitizer's
    set_property(SOURCE ${of_KERNELS} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
  endif()
  plumb_discover_kernel_tests(${target})
endfunction()

# plumb_damaged(<target> <source> <was> <is> <cases> <kernels>...): the program of <cases> with kernels in front of which
# stands a copy of a source, in which <was> is <is>. Sanitizers have nothing to say of it.
function(plumb_damaged target source was is cases)
  if(PLUMB_SANITIZE)
    return()
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/faults/${target})
  plumb_damaged_source(${source} "${was}" "${is}" ${folder})
  plumb_emulated_program(${target} ${cases} ${ARGN})
  target_include_directories(${target} BEFORE PRIVATE ${folder})
  set_target_properties(${target} PROPERTIES PLUMB_DAMAGED ON)
endfunction()

# plumb_test_damaged(<name> <target> <test>): the test must find what is planted. It ends there, or crashes, which the shell
# tells ctest as a failure like others; a program that has no such test has found nothing.
function(plumb_test_damaged name target test)
  if(NOT TARGET ${target})
    return()
  endif()
  add_test(NAME ${name} COMMAND sh -c "\"$0\" \"$1\" --abort || exit 1" $<TARGET_FILE:${target}> ${test})
  set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "test cases: .* failed")
endfunction()
