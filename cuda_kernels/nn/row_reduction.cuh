// Rows whose elements a warp or a block goes over together, and what it makes of all of them.
#pragma once

#include <cstdint>

namespace plumb::cuda {

inline constexpr int warp_threads = 32;
inline constexpr int block_threads = 256;
/// From this length on a warp alone would go over its row more than 32 times.
inline constexpr std::int64_t long_row = 1024;

struct Larger {
  template <class Value>
  __device__ Value operator()(Value a, Value b) const {
    return a > b ? a : b;
  }
};
struct Sum {
  template <class Value>
  __device__ Value operator()(Value a, Value b) const {
    return a + b;
  }
};

/// Combines `value` over the threads of a row, always in the same order; all of them get the
/// result.
template <int row_threads, class Value, class Combine>
__device__ Value combined(Value value, Combine combine) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  if constexpr (row_threads > warp_threads) {
    constexpr int warps = row_threads / warp_threads;
    __shared__ Value of_warp[warps];
    __syncthreads();  // the last use may still be read
    if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < warps; ++warp) value = combine(value, of_warp[warp]);
  }
  return value;
}

}  // namespace plumb::cuda
