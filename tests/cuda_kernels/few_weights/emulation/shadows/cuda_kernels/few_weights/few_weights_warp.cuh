// Rows of a fragment, and the largest of a warp's numbers, on the host.
#pragma once

#include <stdexcept>

#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda::few_weights {

inline void load_rows(Fragment (&a)[4], const std::uint16_t* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    throw std::runtime_error("a row of a fragment is not aligned to 16 bytes");
  const unsigned lane = threadIdx.x % 32;
  const auto& rows = shown_to_warp(row);
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint16_t* const from = rows[8 * i + lane / 4] + 2 * (lane % 4);
    a[i] = from[0] | Fragment{from[1]} << 16;
  }
}

inline int largest_of_warp(int value) { return __reduce_max_sync(~0u, value); }

}  // namespace plumb::cuda::few_weights
