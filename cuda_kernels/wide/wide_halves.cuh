// fp32 values become high and low halves of 22 bits together: of fp16 (primitives/split.hpp), after
// scaling by a power of two, or of TF32.
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

/// TF32 has the exponents of fp32, so that nothing is scaled: high is the value to the nearest
/// TF32, low what is left of it. That has 12 bits where the value is in the upper part of its last
/// place, and otherwise fewer, of which TF32 holds 11: together they are within 2^-23 of the value.
struct WideTf32Halves {
  std::uint32_t high, low;

  /// Low is NaN where the value is not finite, and -Inf beside Inf (or Inf beside -Inf) where it is
  /// rounded up beyond the largest. Every sum that it is part of is then NaN, and is made anew from
  /// the definition.
  __device__ explicit WideTf32Halves(float value) {
    constexpr std::uint32_t half_of_last = 1u << 12, kept = ~0u << 13;
    high = (__float_as_uint(value) + half_of_last) & kept;
    low = __float_as_uint(value - __uint_as_float(high)) & kept;
  }
};

}  // namespace plumb::cuda
