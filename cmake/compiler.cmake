# Warnings and sanitizers, as one interface library that every target of the project links; and what
# of a library is seen from outside.
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

# plumb_precompile(<target> <header>...): other libraries' headers, which take a third of the time to compile
# a small source file, are compiled once. The sources include what they use all the same: the preset
# asan holds them to that with CMAKE_DISABLE_PRECOMPILE_HEADERS.
function(plumb_precompile target)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>" OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${headers})
  # With it ccache finds an object again whose precompiled headers have not changed.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# plumb_hide_symbols(<target> <version script>): what is not marked PLUMB_API stays inside, the
# linker shows no more than the script has, and every symbol that is used must be there.
function(plumb_hide_symbols target version_script)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${version_script})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY")
    target_link_options(${target} PRIVATE LINKER:--version-script=${version_script})
    if(NOT PLUMB_SANITIZE)  # whose symbols come with the program
      target_link_options(${target} PRIVATE LINKER:--no-undefined)
    endif()
  endif()
endfunction()
