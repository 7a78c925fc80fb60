# The Kokkos of Debian as upstream's package shows itself: one target, Kokkos::kokkos, which brings its
# headers and libraries.
add_library(Kokkos::kokkos INTERFACE IMPORTED)
target_include_directories(Kokkos::kokkos INTERFACE $ENV{PLUMB_KOKKOS_HEADERS})
target_link_libraries(Kokkos::kokkos INTERFACE $ENV{PLUMB_KOKKOS_FOLDER}/libtrilinos_kokkoscore.so)
set(Kokkos_DEVICES SERIAL)
