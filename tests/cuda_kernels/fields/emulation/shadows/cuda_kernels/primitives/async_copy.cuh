// cp.async, emulated.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

template <int bytes>
void copy_bytes_async(void* to_shared, const void* from, bool valid) {
  plumb_test::emulation::copy_async(to_shared, from, bytes, valid);
}
inline void copy_async(float* to_shared, const float* from, bool valid) {
  copy_bytes_async<4>(to_shared, from, valid);
}
inline void copy_16_bytes_async(void* to_shared, const void* from) {
  copy_bytes_async<16>(to_shared, from, true);
}
/// Nothing is read behind the first `bytes`.
inline void copy_16_bytes_async(void* to_shared, const void* from, int bytes) {
  if ((reinterpret_cast<std::uintptr_t>(to_shared) | reinterpret_cast<std::uintptr_t>(from)) % 16 !=
      0)
    throw std::runtime_error("a copy is not aligned to its 16 bytes");
  for (int at = 0, width = 4; at < 16; at += width) {
    width = at % 4 != 0 || (at < bytes && bytes < at + 4) ? 2 : 4;
    plumb_test::emulation::copy_async(static_cast<char*>(to_shared) + at,
                                      static_cast<const char*>(from) + at,
                                      static_cast<std::size_t>(width), at < bytes);
  }
}
inline void commit_copies() { plumb_test::emulation::commit_copies(); }
template <int running>
void wait_for_copies() {
  plumb_test::emulation::wait_for_groups(running);
}
inline void wait_for_copies() { plumb_test::emulation::wait_for_all(); }

}  // namespace plumb::cuda
