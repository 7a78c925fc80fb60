// Memory that goes back to its device with its last owner.
#pragma once

#include <cstddef>
#include <memory>

#include "plumb/device.hpp"

namespace plumb {

/// At least one byte, 256-byte aligned. Keeps the device. Error as Device::allocate() has it.
inline std::shared_ptr<void> owned_memory(const Device& device, std::size_t bytes, Memory memory) {
  return {device.allocate(bytes, memory),
          [device, bytes, memory](void* data) { device.deallocate(data, bytes, memory); }};
}

}  // namespace plumb
