// A backend that has a device, or the Error that says why there is none.
#pragma once

#include <string_view>

#include "plumb/backend.hpp"

namespace plumb {

struct ProbedBackend {
  Backend& backend;
  BackendProbe probe;  ///< of at least one device
};
/// Error, with the reason: invalid_argument for a name that no backend has, out_of_memory,
/// device_unavailable.
ProbedBackend probed_backend(std::string_view name);

}  // namespace plumb
