# Plumb from other languages: each example is compiled as its users compile it, and run.
if(PLUMB_SANITIZE)  # other compilers than C++'s have other sanitizers, or none
  return()
endif()

# C99 and nothing else; the header must not need more.
enable_language(C)
add_executable(first_convolution_c ${PROJECT_SOURCE_DIR}/examples/first_convolution.c)
set_target_properties(first_convolution_c PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(first_convolution_c PRIVATE -Wall -Wextra -Wpedantic -pedantic-errors
                       -Wstrict-prototypes -Wconversion -Werror)
target_link_libraries(first_convolution_c PRIVATE plumb::plumb plumb_compiler)
plumb_runs_with_modules(first_convolution_c)
add_test(NAME "example: first_convolution in C" COMMAND first_convolution_c)
set_tests_properties("example: first_convolution in C" PROPERTIES
  PASS_REGULAR_EXPRESSION ": 1\\.000\n$")
