// Whether work fits into memory, asked before anything of it is allocated.
#pragma once

#include <cstddef>
#include <string>

#include "plumb/algorithm.hpp"
#include "plumb/device.hpp"

namespace plumb {

/// Bytes that work holds at once. Doubles, because a problem may be of any size.
struct MemoryNeed {
  double host_bytes = 0;    ///< on the host, beside what lies on the device
  double device_bytes = 0;  ///< on the device; on the CPU they come on top of the host's
};

/// Of the bytes that are free, what work may plan with. The rest is left to everybody else, and to
/// what no estimate counts: a host that hands out its last page ends a process.
inline constexpr double usable_share_of_memory = 0.9;

/// Yes, or Reason::too_large with the bytes needed and those that are free. `what` begins the
/// sentence: "validating".
Support fits(const Device& device, const MemoryNeed& need, const std::string& what);

}  // namespace plumb
