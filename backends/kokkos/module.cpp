// The one symbol by which libplumb takes the Kokkos backend from its module.
#include "plumb/backend.hpp"
#include "plumb/export.h"
#include "plumb/version.hpp"

namespace plumb {
Backend& kokkos_backend();
}  // namespace plumb

extern "C" PLUMB_API const plumb::BackendModule* plumb_backend_module() {
  static const plumb::BackendModule module{plumb::BackendModule::current_abi, plumb::version.data(),
                                           &plumb::kokkos_backend};
  return &module;
}
