// Host memory.
#include "backends/cpu/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/host.hpp"
#include "plumb/error.hpp"

namespace plumb {

void* allocate_host(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::size_t physical = physical_memory_bytes();
  void* memory = nullptr;
  if (bytes <= physical) {
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment;
    memory = std::aligned_alloc(alignment, whole * alignment);
  }
  if (!memory)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("cpu: {} bytes asked for; {} bytes are free of {}", bytes,
                            available_memory_bytes(), physical));
  return memory;
}

void free_host(void* memory) noexcept { std::free(memory); }

}  // namespace plumb
