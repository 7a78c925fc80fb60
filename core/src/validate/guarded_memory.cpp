// Maps memory between pages without access.
#include "guarded_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "plumb/backend.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

/// Larger blocks are given back at once.
constexpr std::size_t largest_kept_bytes = std::size_t{16} << 20;

/// What a device calls pinned though nobody pinned it is memory that it shares with the host.
bool uses_host_memory(const Device& device) {
  const char on_stack = 0;
  return device.backend().is_pinned(&on_stack);
}

}  // namespace

GuardedMemory::GuardedMemory(const Device& device)
    : device_(device),
      on_host_(uses_host_memory(device)),
      page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {}

std::shared_ptr<GuardedMemory> GuardedMemory::of(const Device& device) {
  return std::shared_ptr<GuardedMemory>(new GuardedMemory(device));
}

GuardedMemory::~GuardedMemory() {
  for (const auto& [bytes, blocks] : unused_)
    for (const Block& block : blocks) free(block);
}

GuardedMemory::Block GuardedMemory::allocate(std::size_t bytes) const {
  if (!on_host_) return {static_cast<std::byte*>(device_.allocate(bytes, Memory::device)), bytes};
  void* const mapped = mmap(nullptr, bytes + 2 * page_bytes_, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const auto refuse = [&] {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("{}: {} bytes between guard pages asked for; {} bytes are free",
                            to_string(device_.id()), bytes, device_.free_bytes()));
  };
  if (mapped == MAP_FAILED) refuse();
  auto* const data = static_cast<std::byte*>(mapped) + page_bytes_;
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapped, bytes + 2 * page_bytes_);
    refuse();
  }
  return {data, bytes};
}

void GuardedMemory::free(const Block& block) const noexcept {
  if (on_host_)
    munmap(block.data - page_bytes_, block.bytes + 2 * page_bytes_);
  else
    device_.deallocate(block.data, block.bytes, Memory::device);
}

void GuardedMemory::give_back(const Block& block) noexcept {
  if (block.bytes <= largest_kept_bytes) try {
      const std::lock_guard lock(mutex_);
      unused_[block.bytes].push_back(block);
      return;
    } catch (const std::bad_alloc&) {  // then it is not kept
    }
  free(block);
}

std::shared_ptr<const GuardedMemory::Block> GuardedMemory::take(std::size_t bytes) {
  // Few sizes, so that one of them is often there.
  const std::size_t pages = std::max<std::size_t>(1, (bytes + page_bytes_ - 1) / page_bytes_);
  const std::size_t rounded =
      page_bytes_ * (pages * page_bytes_ <= largest_kept_bytes ? std::bit_ceil(pages) : pages);
  Block block;
  {
    const std::lock_guard lock(mutex_);
    if (auto& kept = unused_[rounded]; !kept.empty()) {
      block = kept.back();
      kept.pop_back();
    }
  }
  if (!block.data) block = allocate(rounded);
  return {new Block(block), [memory = shared_from_this()](const Block* held) {
            memory->give_back(*held);
            delete held;
          }};
}

}  // namespace plumb
