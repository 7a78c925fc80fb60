// Host memory, aligned as every device's is.
#pragma once

#include <cstddef>
#include <memory>

namespace plumb {

/// 256-byte aligned, at least one byte. Error (out_of_memory) where that is more than the machine
/// has, which the system would promise and not keep, or more than it gives.
void* allocate_host(std::size_t bytes);
void free_host(void* memory) noexcept;

struct HostDeleter {
  void operator()(void* memory) const noexcept { free_host(memory); }
};
using HostMemory = std::unique_ptr<void, HostDeleter>;

}  // namespace plumb
