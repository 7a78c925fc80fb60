// CUDA's words for the host's compiler, as the Toeplitz kernel speaks them. It stands before
// everything else in the sources of kernels.
#pragma once

#include "cuda_kernels/wide/emulation/wide_words.hpp"

struct alignas(16) int4 {
  int x, y, z, w;
};

inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  auto& shown = shown_by_lanes<unsigned>();
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  const unsigned result = *std::max_element(shown, shown + 32);
  __syncwarp();
  return result;
}
inline unsigned __reduce_min_sync(unsigned of, unsigned value) {
  return ~__reduce_max_sync(of, ~value);
}
inline int atomicOr(int* at, int value) { return std::exchange(*at, *at | value); }
inline int __all_sync(unsigned of, int condition) {
  return static_cast<int>(__reduce_min_sync(of, condition != 0 ? 1u : 0u));
}
