// Workspace of a queue on a device that was opened with the caller's own allocator.
#pragma once

#include <cstddef>
#include <memory>

#include "plumb/backend.hpp"
#include "plumb/device.hpp"

namespace plumb {

/// Memory from the device's own Allocator, which must be there. Error (out_of_memory) where it has
/// none, (invalid_argument) where what it gives is not 256-byte aligned.
void* allocate_by_caller(const Device& device, std::size_t bytes, Memory memory,
                         void* native_queue);

class QueueWorkspace {
 public:
  QueueWorkspace(const Device& device, std::shared_ptr<BackendQueue> queue)
      : device_(device), queue_(std::move(queue)) {}
  ~QueueWorkspace() { release(); }
  QueueWorkspace(const QueueWorkspace&) = delete;
  QueueWorkspace& operator=(const QueueWorkspace&) = delete;

  /// As Queue::workspace().
  void* at_least(std::size_t bytes);

 private:
  void release() noexcept;

  Device device_;
  std::shared_ptr<BackendQueue> queue_;  ///< outlives the memory, which goes back in its order
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace plumb
