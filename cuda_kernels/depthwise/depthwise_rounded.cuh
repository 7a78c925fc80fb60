// Rounds the finished sums of neighbouring channels to the stored type.
#pragma once

#include <cstring>

#include "cuda_kernels/depthwise/depthwise_vectors.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise {

/// A zero comes out without a sign, as Epilogue::finish() leaves it. Halves are rounded and freed
/// of it in pairs, which takes two instructions.
template <class Stored, class Scalar, int width>
__device__ __forceinline__ Channels<Stored, width> rounded_channels(const Scalar (&sums)[width]) {
  Channels<Stored, width> values;
#ifdef __CUDA_ARCH__
  if constexpr (width == 2 && std::is_same_v<Stored, __half>) {
    const __half2 pair = __hadd2(__floats2half2_rn(sums[0], sums[1]), __float2half2_rn(0.0f));
    memcpy(&values, &pair, sizeof(values));
  } else if constexpr (width == 2 && std::is_same_v<Stored, __nv_bfloat16>) {
    const __nv_bfloat162 pair =
        __hadd2(__floats2bfloat162_rn(sums[0], sums[1]), __float2bfloat162_rn(0.0f));
    memcpy(&values, &pair, sizeof(values));
  } else
#endif
  {
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const Stored stored = convert<Stored>(sums[e]);
      if constexpr (std::is_same_v<Stored, Scalar>)
        values.of[e] = stored + Scalar{0};
      else
        values.of[e] =
            convert<Stored>(convert<ComputeType<Stored>>(stored) + ComputeType<Stored>{0});
    }
  }
  return values;
}

}  // namespace plumb::cuda::depthwise
