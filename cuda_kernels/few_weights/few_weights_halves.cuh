// What is stored becomes operands of the tensor cores: f16 and bf16 as they are; f32 scaled by a
// power of two for each unit, in one half or in two.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda_kernels/few_weights/few_weights_warp.cuh"
#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda::few_weights {

struct Fp16 {
  using Stored = __half;
  static constexpr FewWeightsClass host = few_weights_fp16_class;
};
struct Bf16 {
  using Stored = __nv_bfloat16;
  static constexpr FewWeightsClass host = few_weights_bf16_class;
};
struct Fp16Scaled {
  using Stored = float;
  static constexpr FewWeightsClass host = few_weights_fp16_scaled_class;
};
struct Fp16x3 {
  using Stored = float;
  static constexpr FewWeightsClass host = few_weights_fp16x3_class;
};

/// 2^exponent times a value, rounded where the result is no normal number. Two scales together are
/// more than one power of two holds, and more than two.
__device__ inline float scaled_by(float value, int exponent) {
  const int third = exponent / 3;
  const float scale = power_of_two(third);
  return value * scale * scale * power_of_two(exponent - 2 * third);
}

/// The values of a unit's tensor that fp16 holds under one scale. Two ranges are tried, the second
/// below the first: a value belongs to the first that holds it and is zero in the other. One that
/// neither holds is NaN, as is what is not finite: sums of it are made anew by the definition.
struct Range {
  int below;     ///< bits of magnitudes: larger ones belonged to the range before
  int exponent;  ///< of the scale
  float scales[2];
  bool last;

  /// The range under a largest magnitude of those bits, which is finite.
  __device__ Range(int largest, int below, bool last) : below(below), last(last) {
    // 2^14 to 2^15 at most: subnormal numbers too, so that a range holds whatever is in it.
    exponent = largest == 0 ? 0 : 14 + 127 - max(largest >> 23, 1);
    scales[0] = power_of_two(exponent >> 1);
    scales[1] = power_of_two(exponent - (exponent >> 1));
  }
  /// Bits of the least magnitude that it holds.
  __device__ int least() const { return magnitude_bits(scaled_by(split_least, -exponent)); }

  /// The halves of a value; `left` becomes the largest magnitude that is left to the next range.
  template <bool splits>
  __device__ void put(float value, std::uint32_t& high, std::uint32_t& low, int& left) const {
    constexpr std::uint32_t nan = 0x7fff;
    const int bits = magnitude_bits(value);
    const float scaled = value * scales[0] * scales[1];
    high = low = 0;
    if (bits >= below) {
      high = low = last ? 0 : nan;
      return;
    }
    if (bits != 0 && fabsf(scaled) < split_least) {
      left = max(left, bits);
      if (last) high = low = nan;
      return;
    }
    const __half first = __float2half_rn(scaled);
    high = __half_as_ushort(first);
    if constexpr (splits)
      low = __half_as_ushort(__float2half_rn((scaled - __half2float(first)) * split_raise));
  }
};

/// The range of what is stored in 16 bits: all of it, as it is.
struct NoRange {};

/// Eight neighbours as they are multiplied, and the one behind them.
template <bool splits>
struct Eight {
  std::uint32_t high[9], low[9];

  __device__ void read(const Range& range, const float* from, int& left) {
    const float4 a = *reinterpret_cast<const float4*>(from),
                 b = *reinterpret_cast<const float4*>(from + 4);
    const float values[] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) range.put<splits>(values[i], high[i], low[i], left);
  }
  __device__ void read_next(const Range& range, const float* from, int& left) {
    range.put<splits>(from[8], high[8], low[8], left);
  }
  template <class Stored>
  __device__ void read(const NoRange&, const Stored* from, int&) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    const std::uint32_t words[] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) high[i] = words[i / 2] >> i % 2 * 16 & 0xffff;
  }
  template <class Stored>
  __device__ void read_next(const NoRange&, const Stored* from, int&) {
    high[8] = *reinterpret_cast<const std::uint16_t*>(from + 8);
  }
  /// Writes eight of them, from the first or the second on.
  template <int first>
  __device__ static void write(const std::uint32_t (&of)[9], std::uint16_t* to) {
    *reinterpret_cast<uint4*>(to) = {
        of[first] | of[first + 1] << 16, of[first + 2] | of[first + 3] << 16,
        of[first + 4] | of[first + 5] << 16, of[first + 6] | of[first + 7] << 16};
  }
};

/// Writes the operand of so many elements, a multiple of eight; of the input a second copy behind
/// it, one element further on, and low halves behind those. Returns the largest magnitude that was
/// left to the next range.
template <bool splits, bool twice, class Stored, class OfRange>
__device__ int write_operand(const OfRange& range, const Stored* from, std::uint16_t* to,
                             int elements, int thread, int threads) {
  int left = 0;
  const int low = elements * (twice ? 2 : 1);
  for (int at = 8 * thread; at < elements; at += 8 * threads) {
    Eight<splits> eight;
    eight.read(range, from + at, left);
    eight.template write<0>(eight.high, to + at);
    if constexpr (splits) eight.template write<0>(eight.low, to + low + at);
    if constexpr (twice) {
      eight.read_next(range, from + at, left);
      eight.template write<1>(eight.high, to + elements + at);
      if constexpr (splits) eight.template write<1>(eight.low, to + low + elements + at);
    }
  }
  return left;
}

/// The largest finite magnitude of a thread's share of so many elements, a multiple of four.
__device__ inline int largest_magnitude(const float* from, int elements, int thread, int threads) {
  int largest = 0;
  for (int at = 4 * thread; at < elements; at += 4 * threads) {
    const float4 of = *reinterpret_cast<const float4*>(from + at);
    for (const float value : {of.x, of.y, of.z, of.w}) {
      const int bits = magnitude_bits(value);
      if (bits < infinity_bits) largest = max(largest, bits);
    }
  }
  return largest;
}

}  // namespace plumb::cuda::few_weights
