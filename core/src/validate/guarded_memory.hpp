// Memory for guarded tensors, kept from case to case.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plumb/device.hpp"

namespace plumb {

/// Blocks of a device's memory. Where the device uses the host's, a page that nobody may touch lies
/// on either side of each. A block is used again once nobody holds it: neither mapping pages nor
/// taking memory from a GPU is cheap enough to be done for every tensor of a small problem.
class GuardedMemory : public std::enable_shared_from_this<GuardedMemory> {
 public:
  static std::shared_ptr<GuardedMemory> of(const Device& device);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  struct Block {
    std::byte* data = nullptr;  ///< begins at a page's beginning and ends at one's end, if guarded
    std::size_t bytes = 0;
  };
  /// At least so many bytes, of whatever content, until the last copy of the handle goes. May be
  /// called from several threads. Error (out_of_memory).
  std::shared_ptr<const Block> take(std::size_t bytes);

  const Device& device() const { return device_; }
  /// Whether blocks lie between pages that nobody may touch.
  bool has_guard_pages() const { return on_host_; }

 private:
  explicit GuardedMemory(const Device& device);
  Block allocate(std::size_t bytes) const;
  void free(const Block& block) const noexcept;
  void give_back(const Block& block) noexcept;

  Device device_;
  bool on_host_;
  std::size_t page_bytes_;
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Block>> unused_;  ///< by their size
};

}  // namespace plumb
