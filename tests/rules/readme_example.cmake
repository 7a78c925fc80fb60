# Fails unless the README's first block of C++ is examples/first_convolution.cpp, to the letter.
include(${CMAKE_CURRENT_LIST_DIR}/code_block.cmake)
code_block(shown "${ROOT}/README.md" cpp)
file(READ "${ROOT}/examples/first_convolution.cpp" example)
if(NOT shown STREQUAL example)
  message(FATAL_ERROR "README.md does not show examples/first_convolution.cpp as it is")
endif()
