// What the operating system tells about the machine.
#pragma once

#include <cstddef>
#include <string>

namespace plumb {

/// The processor as its vendor calls it, or the architecture where the system does not say.
std::string processor_name();

std::size_t physical_memory_bytes();

/// Memory that could be had without swapping.
std::size_t available_memory_bytes();

}  // namespace plumb
