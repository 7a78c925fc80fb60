// fp32 values become high and low fp16 halves of 22 bits together (primitives/split.hpp), after
// scaling by a power of two.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda {

/// The bits of a value's halves.
struct WideHalves {
  std::uint32_t high, low;

  /// Both are NaN where the halves do not hold the value: it is not finite, or lies too far below
  /// the largest that has the scale. Every sum that it is part of is then NaN, and is made anew
  /// from the definition.
  __device__ WideHalves(float value, float scale) : high(0x7fff), low(0x7fff) {
    const float scaled = value * scale, magnitude = fabsf(scaled);
    if (value != 0 && !(magnitude >= split_least && magnitude < split_most)) return;
    const __half first = __float2half_rn(scaled);
    high = __half_as_ushort(first);
    low = __half_as_ushort(__float2half_rn((scaled - __half2float(first)) * split_raise));
  }
};

}  // namespace plumb::cuda
