# The house rules as tests: headers that stand alone, who includes whom, and a README that is true.

# Each public header twice in a source of its own: it needs no other before it, and has a guard.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/core/include
     ${PROJECT_SOURCE_DIR}/core/include/plumb/*.hpp
     ${PROJECT_SOURCE_DIR}/core/include/plumb/*.h)
if(NOT PLUMB_KOKKOS_LANGUAGE STREQUAL "CXX")  # there is no Kokkos, or C++ is not enough for it
  list(REMOVE_ITEM public_headers plumb/kokkos.hpp)
endif()
set(header_sources)
foreach(header ${public_headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include <${header}>\n#include <${header}>\n")
  list(APPEND header_sources ${source})
endforeach()
add_library(plumb_header_tests OBJECT ${header_sources})
target_link_libraries(plumb_header_tests PRIVATE plumb::plumb plumb_compiler
                      $<TARGET_NAME_IF_EXISTS:plumb_found_kokkos>)

add_test(NAME "rules: includes" COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_includes
         ${PROJECT_SOURCE_DIR})
add_test(NAME "rules: the include check finds a breach"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_includes_test)

add_test(NAME "rules: one way to OpenMP" COMMAND bash
         ${CMAKE_CURRENT_LIST_DIR}/check_openmp ${PROJECT_SOURCE_DIR})
add_test(NAME "rules: the check of the way to OpenMP finds a breach"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_openmp_test)

# Names of groups are no regular expressions.
foreach(group ".*" "build.*" "bui" "")
  add_test(NAME "rules: scripts/deps has no group '${group}'"
           COMMAND bash ${PROJECT_SOURCE_DIR}/scripts/deps "${group}")
  set_tests_properties("rules: scripts/deps has no group '${group}'" PROPERTIES
    PASS_REGULAR_EXPRESSION "scripts/deps: no group .*expected of: build apps")
endforeach()

find_program(PLUMB_PYTHON python3)
if(PLUMB_PYTHON)
  add_test(NAME "rules: mutation sites are found"
           COMMAND ${PLUMB_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/mutation_sites_test
                   ${PROJECT_SOURCE_DIR})
  add_test(NAME "rules: docs/performance.md is generated"
           COMMAND ${PLUMB_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/performance --check)
  add_test(NAME "rules: links between pages lead somewhere"
           COMMAND ${PLUMB_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/check_links
                   ${PROJECT_SOURCE_DIR})
  add_test(NAME "rules: the check of links finds a breach"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_links_test)
endif()

function(plumb_test_shown page example language)
  add_test(NAME "rules: ${page} shows ${example}"
           COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DPAGE=${page} -DEXAMPLE=${example}
                   -DLANGUAGE=${language} ${ARGN}
                   -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/shown_example.cmake)
endfunction()
plumb_test_shown(README.md examples/first_convolution.cpp cpp)
plumb_test_shown(docs/embedding.md examples/first_convolution.c c)
plumb_test_shown(docs/embedding.md examples/mpi_filter.cpp cpp)
plumb_test_shown(docs/embedding.md examples/heat.f90 fortran -DPART=ON)

# What users write must warn under no warnings of theirs. A compiler that is not here is a skip.
foreach(compiler IN ITEMS g++ clang++)
  add_test(NAME "rules: what users write does not warn: ${compiler}"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_warnings ${PROJECT_SOURCE_DIR}
                   ${PROJECT_BINARY_DIR}/include ${compiler})
  set_tests_properties("rules: what users write does not warn: ${compiler}" PROPERTIES
    SKIP_RETURN_CODE 4)
endforeach()

foreach(page IN ITEMS docs/api.md docs/never_falls_over.md)
  add_test(NAME "rules: ${page} shows examples/tasks.cpp"
           COMMAND ${CMAKE_COMMAND} -DPAGE=${PROJECT_SOURCE_DIR}/${page}
                   -DEXAMPLE=${PROJECT_SOURCE_DIR}/examples/tasks.cpp
                   -P ${CMAKE_CURRENT_LIST_DIR}/shown_code.cmake)
endforeach()
add_test(NAME "rules: everything public is documented"
         COMMAND bash ${PROJECT_SOURCE_DIR}/scripts/docs --check)
if(NOT DEFINED ENV{CI})
  set_tests_properties("rules: everything public is documented" PROPERTIES SKIP_RETURN_CODE 4)
endif()

# The kernel that docs/add_a_kernel.md shows, compiled as it stands there.
if(PLUMB_HAVE_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/code_block.cmake)
  set(kernel_page ${PROJECT_SOURCE_DIR}/docs/add_a_kernel.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel_page})
  code_block(shown_kernel ${kernel_page} cuda)
  set(shown_kernel_source ${CMAKE_CURRENT_BINARY_DIR}/per_pixel.cu)
  file(CONFIGURE OUTPUT ${shown_kernel_source} CONTENT "${shown_kernel}" @ONLY)
  add_library(plumb_shown_kernel OBJECT ${shown_kernel_source})
  target_include_directories(plumb_shown_kernel PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_shown_kernel PRIVATE plumb::plumb plumb_compiler)
endif()

# That nothing was found means something only where something can be.
if(PLUMB_SANITIZE STREQUAL "thread")
  add_test(NAME "tsan: the planted race is found" COMMAND plumb_tests "planted faults are caught")
  set_tests_properties("tsan: the planted race is found" PROPERTIES
    PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
endif()

if(TARGET plumb_program)
  add_test(NAME "rules: docs/reference.md names what runs f16 in fp64"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_fp64_row ${PROJECT_SOURCE_DIR}/docs/reference.md
                   $<TARGET_FILE:plumb_program>)
endif()
