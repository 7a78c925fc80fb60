# Warnings and sanitizers, as one interface library that every target of the project links.
add_library(plumb_compiler INTERFACE)
set(host_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    # Designated initialisers leave fields at their defaults on purpose.
    -Wno-missing-field-initializers)
if(PLUMB_WERROR)
  list(APPEND host_warnings -Werror)
endif()
target_compile_options(plumb_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${host_warnings}>")

# nvcc hands the host part of a .cu to the host compiler; -Wpedantic there trips over nvcc's own
# line markers.
set(cuda_warnings -Xcompiler=-Wall,-Wextra -Wreorder)
if(PLUMB_WERROR)
  list(APPEND cuda_warnings -Werror=all-warnings -Xcompiler=-Werror)
endif()
target_compile_options(plumb_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")

if(PLUMB_SANITIZE)
  target_compile_options(plumb_compiler INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PLUMB_SANITIZE};-fno-omit-frame-pointer>"
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU,Clang>>:-fno-sanitize-recover=all>")
  target_link_options(plumb_compiler INTERFACE -fsanitize=${PLUMB_SANITIZE})
endif()
