// The tests of a program that owns its Kokkos: initialised before them, finalised after.
#include <Kokkos_Core.hpp>

#include "support/run_catch.hpp"

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return plumb_test::run_catch(argc, argv);
}
