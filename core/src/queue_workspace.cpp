// The caller's memory, asked for, checked and given back.
#include "queue_workspace.hpp"

#include <fmt/format.h>

#include "plumb/error.hpp"

namespace plumb {

void* allocate_by_caller(const Device& device, std::size_t bytes, Memory memory,
                         void* native_queue) {
  const Allocator& allocator = device.options().allocator;
  void* data = allocator.allocate(bytes, memory, native_queue);
  if (!data)
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("the caller's allocator has no {} bytes of {} memory for {}", bytes,
                    memory == Memory::device ? "device" : "pinned host", to_string(device.id())));
  if (reinterpret_cast<std::uintptr_t>(data) % 256 != 0) {
    allocator.deallocate(data, bytes, memory, native_queue);
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the caller's allocator gave memory at {}; expected a multiple of 256", data));
  }
  return data;
}

void* QueueWorkspace::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  if (queue_->is_capturing())
    throw Error(ErrorCode::unsupported,
                fmt::format("a workspace of {} bytes is needed while the stream is being captured, "
                            "and the queue has {}; pass one to execute(), or execute once before "
                            "the capture begins",
                            bytes, bytes_));
  release();  // first, so that the old and the new are not held at once
  data_ = allocate_by_caller(device_, bytes, Memory::device, queue_->native());
  bytes_ = bytes;
  return data_;
}

void QueueWorkspace::release() noexcept {
  if (!data_) return;
  void* native = queue_->native();
  if (!native) {  // nothing tells the allocator whose order to keep
    try {
      queue_->synchronize();
    } catch (...) {  // the device is broken, and nothing runs on it any more
    }
  }
  device_.options().allocator.deallocate(data_, bytes_, Memory::device, native);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace plumb
