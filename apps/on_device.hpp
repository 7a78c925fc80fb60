// Work on a device that `auto` may have chosen, and may have to give up.
#pragma once

#include <type_traits>
#include <utility>

#include "plumb/device.hpp"

namespace plumb::app {

/// work(device), with the device that did it: where `auto` chose the one given and it fails, the
/// work is done again on the CPU. The error as it was, where the device was asked for by name, or
/// where the CPU cannot do it either for lack of an algorithm.
template <class Work>
auto on_device_or_cpu(const Device& device, Work&& work)
    -> std::pair<Device, std::invoke_result_t<Work&, const Device&>> {
  try {
    return {device, work(device)};
  } catch (const Error& failure) {
    const Device cpu = device.fall_back(failure);
    try {
      return {cpu, work(cpu)};
    } catch (const Error& e) {
      if (e.code() == ErrorCode::unsupported) throw failure;
      throw;
    }
  }
}

}  // namespace plumb::app
