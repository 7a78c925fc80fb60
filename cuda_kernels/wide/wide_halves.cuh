// fp32 values become high and low halves of 22 bits together: of fp16 (primitives/split.hpp), after
// scaling by a power of two, or of TF32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda {

/// Returns value · 2^exponent, for exponents from -252 to 254. Both factors change it in the same
/// direction, so that it leaves fp32's range only where the result does.
__device__ inline float times_power_of_two(float value, int exponent) {
  const int half = exponent >> 1;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

/// The bits of a value's halves.
struct WideHalves {
  std::uint32_t high, low;

  /// Both are NaN where the value is not finite: every sum that it is part of is then NaN, and is
  /// made anew from the definition. Of values below `split_least` they hold what they can
  /// (WideScale).
  __device__ WideHalves(float value, float scale) : high(0x7fff), low(0x7fff) {
    const float scaled = value * scale;
    if (!(fabsf(scaled) < split_most)) return;
    const __half first = __float2half_rn(scaled);
    high = __half_as_ushort(first);
    low = __half_as_ushort(__float2half_rn((scaled - __half2float(first)) * split_raise));
  }
};

/// The largest and the smallest magnitude of those values that are finite and not zero: of each
/// the number of its highest bit, from 1 of the smallest subnormal on; 0 where there are none.
struct WideMagnitudes {
  int most = 0, least = 0;

  __device__ WideMagnitudes() = default;
  __device__ explicit WideMagnitudes(std::uint32_t word)
      : most(static_cast<int>(word >> 16)), least(static_cast<int>(word & 0xffff)) {}
  __device__ std::uint32_t word() const { return static_cast<std::uint32_t>(most << 16 | least); }
  __device__ void add(const WideMagnitudes& other) {
    most = max(most, other.most);
    least = least == 0 ? other.least : other.least == 0 ? least : min(least, other.least);
  }
};

/// Finds them, by bits.
struct WideLook {
  int most = 0;
  std::uint32_t least = 0xffffffff;  ///< less one, by which zero is the largest

  __device__ void at(float value) {
    const int bits = magnitude_bits(value);
    most = max(most, bits < infinity_bits ? bits : 0);
    least = min(least, static_cast<std::uint32_t>(bits) - 1);
  }
  __device__ WideMagnitudes found() const {
    WideMagnitudes of;
    of.most = number(most);
    // What is not finite is no magnitude.
    if (least < static_cast<std::uint32_t>(infinity_bits) - 1)
      of.least = number(static_cast<int>(least) + 1);
    return of;
  }

 private:
  __device__ static int number(int bits) {
    return bits >> 23 != 0 ? (bits >> 23) + 23 : 32 - __clz(bits);
  }
};

/// What an image or a filter was scaled by, a power of two, and whether a value was too small then
/// for its halves to hold 22 bits of it. Those of an image and of a filter add up.
struct WideScale {
  int word;

  __device__ explicit WideScale(int word) : word(word) {}
  __device__ explicit WideScale(const WideMagnitudes& of) {
    const int exponent = scale_exponent(of.most == 0 ? 0 : max(of.most - 23, 1) << 23);
    const bool small = of.least != 0 && of.least - 150 + exponent < split_least_exponent;
    word = 4 * exponent + (small ? 1 : 0);
  }
  __device__ WideScale operator+(const WideScale& other) const {
    return WideScale(word + other.word);
  }
  __device__ int exponent() const { return word >> 2; }
  /// Undoes it of a sum. Where there were small values, sums below `least` become NaN, and are made
  /// anew as those are.
  __device__ float undo(float sum, float least) const {
    if ((word & 3) != 0 && fabsf(sum) < least) return quiet_nan;
    return times_power_of_two(sum, -exponent());
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
