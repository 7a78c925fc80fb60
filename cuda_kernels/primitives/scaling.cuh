// Operands are scaled by powers of two so that fp16 holds them: a scale is made from the bits of
// the largest magnitude, which are in the order of the magnitudes.
#pragma once

namespace plumb::cuda {

inline constexpr int infinity_bits = 0x7f800000;  ///< of magnitudes, those below are finite
__device__ inline int magnitude_bits(float value) { return __float_as_int(value) & 0x7fffffff; }

/// Returns the exponent of the power of two that scales a magnitude of the bits `largest`, which is
/// finite, to between 2^14 and 2^15.
__device__ inline int scale_exponent(int largest) {
  const int biased = max(largest >> 23, 1);
  return largest == 0 ? 0 : min(14 + 127 - biased, 126);
}
/// Returns 2^exponent, for exponents from -126 to 127.
__device__ inline float power_of_two(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

}  // namespace plumb::cuda
