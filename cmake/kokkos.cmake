# Sets PLUMB_HAVE_KOKKOS and PLUMB_KOKKOS_LANGUAGE (CXX or CUDA: what Kokkos' users are written in), and
# makes plumb_found_kokkos, the target to link, of a Kokkos of any age.
# Kokkos by itself brings Kokkos::kokkos. Debian's 3.4 comes with Trilinos: its libraries are
# trilinos_kokkos*, and its Kokkos::kokkos names a folder of headers that is not there.
set(PLUMB_HAVE_KOKKOS OFF)
if(NOT PLUMB_KOKKOS)
  message(STATUS "Kokkos backend: off (PLUMB_KOKKOS=OFF)")
  return()
endif()
find_package(Kokkos QUIET)
if(NOT Kokkos_FOUND)
  message(STATUS "Kokkos backend: off, no Kokkos found (Kokkos_ROOT tells where it is)")
  return()
endif()
add_library(plumb_found_kokkos INTERFACE)
set(PLUMB_KOKKOS_LIBRARY Kokkos::kokkos)   # to link
set(PLUMB_KOKKOS_CORE Kokkos::kokkoscore)  # the file that this means
if(TARGET trilinos_kokkoscore)
  set(PLUMB_KOKKOS_LIBRARY trilinos_kokkoscore)
  set(PLUMB_KOKKOS_CORE trilinos_kokkoscore)
  find_path(PLUMB_KOKKOS_HEADERS Kokkos_Core.hpp REQUIRED NO_CACHE
            HINTS ${Kokkos_DIR}/../../../../include PATH_SUFFIXES trilinos)
  target_include_directories(plumb_found_kokkos SYSTEM INTERFACE ${PLUMB_KOKKOS_HEADERS})
endif()
target_link_libraries(plumb_found_kokkos INTERFACE ${PLUMB_KOKKOS_LIBRARY})

# A Kokkos for CUDA wants its users compiled by nvcc: through its wrapper as the C++ compiler, or,
# where it was built with Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE, as CMake's language CUDA.
if(Kokkos_COMPILE_LANGUAGE STREQUAL "CUDA" AND NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "The Kokkos found wants its users compiled as CUDA: PLUMB_CUDA=ON is needed, "
                      "and nvcc; or PLUMB_KOKKOS=OFF")
endif()
set(PLUMB_KOKKOS_LANGUAGE CXX)
if(Kokkos_COMPILE_LANGUAGE STREQUAL "CUDA")
  set(PLUMB_KOKKOS_LANGUAGE CUDA)
endif()
if(Kokkos_ENABLE_CUDA)
  # Conversions of 16-bit types are constexpr functions of the public headers.
  target_compile_options(plumb_found_kokkos INTERFACE
    $<$<COMPILE_LANGUAGE:${PLUMB_KOKKOS_LANGUAGE}>:--expt-relaxed-constexpr>)
endif()
# plumb_compile_with_kokkos(SOURCE...): of the folder it is called in.
function(plumb_compile_with_kokkos)
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    set_source_files_properties(${source} TARGET_DIRECTORY ${PLUMB_KOKKOS_TARGET}
                                PROPERTIES LANGUAGE ${PLUMB_KOKKOS_LANGUAGE})
  endforeach()
endfunction()
set(PLUMB_HAVE_KOKKOS ON)
message(STATUS "Kokkos backend: ${Kokkos_VERSION} in ${Kokkos_DIR}, for ${Kokkos_DEVICES}")
