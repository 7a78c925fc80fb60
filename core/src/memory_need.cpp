// Compares what work needs with what is free on the host and on the device.
#include "memory_need.hpp"

#include <fmt/format.h>

namespace plumb {
namespace {

/// So little that asking what is free would take longer than the work.
constexpr double always_there = 1 << 24;

Support within(double needed, const Device& device, const std::string& what) {
  if (needed <= always_there) return {};
  const auto free = static_cast<double>(device.free_bytes());
  if (needed <= usable_share_of_memory * free) return {};
  return {Reason::too_large,
          fmt::format("{} needs {:.0f} bytes on {}; {:.0f} are free, of which it may use {:.0f} %",
                      what, needed, to_string(device.id()), free, 100 * usable_share_of_memory)};
}

}  // namespace

Support fits(const Device& device, const MemoryNeed& need, const std::string& what) {
  if (device.id() == host) return within(need.host_bytes + need.device_bytes, device, what);
  if (const Support support = within(need.device_bytes, device, what); !support) return support;
  return within(need.host_bytes, Device::open("cpu"), what);
}

}  // namespace plumb
