// What the CUDA driver shows, found out without making a context on any device.
#pragma once

#include <string>

#include "plumb/device.hpp"
#include "plumb/error.hpp"

namespace plumb::cuda {

/// How many devices there are, or why there are none.
struct DeviceCount {
  int devices = 0;
  Reason reason = Reason::none;
  std::string sentence;
};
DeviceCount count_devices();

/// Throws Error (device_failure).
DeviceInfo describe_device(int index);

/// 13000 for 13.0; the driver's is 0 where none is installed.
int runtime_version();
int driver_version();
/// "13.0"
std::string version_text(int version);

}  // namespace plumb::cuda
