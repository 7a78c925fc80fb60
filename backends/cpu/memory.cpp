// Host memory.
#include "backends/cpu/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "backends/cpu/host.hpp"
#include "plumb/error.hpp"

namespace plumb {

void* allocate_host(std::size_t bytes) {
  // Channels lie pages apart: with pages of 4 KiB there are more of them in use at once than a
  // processor keeps addresses for.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const bool huge = bytes >= huge_page;
  const std::size_t alignment = huge ? huge_page : 256;
  // Asking reads files of the system's: not for what every machine has.
  void* memory = nullptr;
  if (!huge || bytes <= physical_memory_bytes()) {
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment;
    memory = std::aligned_alloc(alignment, whole * alignment);
  }
  if (!memory)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("cpu: {} bytes asked for; {} bytes are free of {}", bytes,
                            available_memory_bytes(), physical_memory_bytes()));
#ifdef __linux__
  // Refused, or not there, it changes nothing.
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_host(void* memory) noexcept { std::free(memory); }

}  // namespace plumb
