// Filters of a block's channels come to shared memory.
#pragma once

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise {

/// Puts all taps of `width` neighbouring channels side by side, so that threads read them from
/// different banks, of `channels` channels from `first` on. `together` loads of a thread are under
/// way at once, since the stores behind them wait for all.
template <int taps, int width, int together, class Stored, class Scalar>
__device__ __forceinline__ void load_filters(const DeepShape<int>& shape, const Stored* w,
                                             int first, int channels, Scalar* to) {
  constexpr int of_channel = taps * taps;
  const int all = min(channels, shape.k.value() - first) * of_channel;
  const int threads = static_cast<int>(blockDim.x);
  for (int i = static_cast<int>(threadIdx.x); i < all; i += together * threads) {
    Stored weights[together];
#pragma unroll
    for (int j = 0; j < together; ++j) {
      const int at = min(i + j * threads, all - 1);
      const int channel = at / of_channel, tap = at % of_channel;
      weights[j] = w[(first + channel) * shape.w_k + tap / taps * shape.rows.w_step +
                     tap % taps * shape.columns.w_step];
    }
#pragma unroll
    for (int j = 0; j < together; ++j) {
      const int at = i + j * threads;
      if (at >= all) continue;
      const int channel = at / of_channel, tap = at % of_channel;
      to[(channel / width * of_channel + tap) * width + channel % width] =
          convert<Scalar>(weights[j]);
    }
  }
}

}  // namespace plumb::cuda::depthwise
