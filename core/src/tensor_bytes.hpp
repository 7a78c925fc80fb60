// Bytes of tensors, and places in them, for what lies in workspace one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Rounded up to where the next part of a workspace may begin.
inline std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Of a dense tensor.
inline std::size_t bytes_of(DType dtype, const Extents& extents) {
  return static_cast<std::size_t>(element_count(extents)) * size_in_bytes(dtype);
}

/// The element that lies so many elements behind `data`. Launches have one pointer for what is read
/// and what is written.
inline std::byte* moved(const void* data, std::int64_t elements, DType dtype) {
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
  return bytes + elements * static_cast<std::int64_t>(size_in_bytes(dtype));
}

}  // namespace plumb
