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

/// A range that holds all values of a unit, under one scale: nothing is looked at one by one.
struct WholeRange {
  float scale;
};
/// The range of what is stored in 16 bits: all of it, as it is.
struct NoRange {};

/// Elements so far apart, of which no more than `count` are there.
struct Apart {
  const float* from;
  int apart, count;
};

/// Eight elements as they are multiplied, in pairs, and the one behind them, if they are
/// neighbours.
template <bool splits>
struct Eight {
  std::uint32_t high[5], low[5];

  template <class From>
  __device__ void read(const Range& range, const From& from, int& left) {
    each_pair(from, [&](int i, float first, float second) {
      std::uint32_t highs[2], lows[2];
      range.put<splits>(first, highs[0], lows[0], left);
      range.put<splits>(second, highs[1], lows[1], left);
      high[i] = highs[0] | highs[1] << 16, low[i] = lows[0] | lows[1] << 16;
    });
  }
  __device__ void read_next(const Range& range, const float* from, int& left) {
    range.put<splits>(from[8], high[4], low[4], left);
  }
  template <class From>
  __device__ void read(const WholeRange& range, const From& from, int&) {
    each_pair(from, [&](int i, float first, float second) { put(range, i, first, second); });
  }
  __device__ void read_next(const WholeRange& range, const float* from, int&) {
    put(range, 4, from[8], 0);
  }
  template <class Stored>
  __device__ void read(const NoRange&, const Stored* from, int&) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    high[0] = all.x, high[1] = all.y, high[2] = all.z, high[3] = all.w;
  }
  template <class Stored>
  __device__ void read_next(const NoRange&, const Stored* from, int&) {
    high[4] = *reinterpret_cast<const std::uint16_t*>(from + 8);
  }
  /// Writes eight of them, from the first or the second on.
  template <int first>
  __device__ static void write(const std::uint32_t (&of)[5], std::uint16_t* to) {
    const auto word = [&](int i) { return first == 0 ? of[i] : of[i] >> 16 | of[i + 1] << 16; };
    *reinterpret_cast<uint4*>(to) = {word(0), word(1), word(2), word(3)};
  }

 private:
  template <class Put>
  __device__ static void each_pair(const float* from, const Put& put) {
    const float4 a = *reinterpret_cast<const float4*>(from),
                 b = *reinterpret_cast<const float4*>(from + 4);
    put(0, a.x, a.y), put(1, a.z, a.w), put(2, b.x, b.y), put(3, b.z, b.w);
  }
  template <class Put>
  __device__ static void each_pair(const Apart& of, const Put& put) {
    const auto at = [&](int i) { return i < of.count ? of.from[i * of.apart] : 0.0f; };
#pragma unroll
    for (int i = 0; i < 4; ++i) put(i, at(2 * i), at(2 * i + 1));
  }
  __device__ static std::uint32_t bits(const __half2& pair) {
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  __device__ void put(const WholeRange& range, int i, float first, float second) {
    first *= range.scale, second *= range.scale;
    const __half2 highs = __floats2half2_rn(first, second);
    high[i] = bits(highs);
    if constexpr (splits) {
      const float2 of = __half22float2(highs);
      low[i] = bits(__floats2half2_rn((first - of.x) * split_raise, (second - of.y) * split_raise));
    }
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

/// The largest and the least magnitude of some elements, as numbers that grow towards both ends.
struct Extremes {
  int largest = 0;  ///< its bits, or those of what is not finite
  int smallest =
      0;  ///< 2^31 less the bits of the least magnitude but zero; of zeros alone zero or less

  __device__ void add(float value) {
    const int bits = magnitude_bits(value);
    largest = max(largest, bits);
    smallest = max(smallest, static_cast<int>(0x80000000u - static_cast<unsigned>(bits)));
  }
  /// Whether a range has all of them, under a scale that one number holds.
  __device__ bool fit(const Range& range) const {
    return largest < infinity_bits && range.exponent < 127 &&
           (smallest <= 0 ||
            0x80000000u - static_cast<unsigned>(smallest) >= static_cast<unsigned>(range.least()));
  }
};

/// Of a thread's share of so many elements, a multiple of four.
__device__ inline Extremes extremes(const float* from, int elements, int thread, int threads) {
  Extremes found;
  for (int at = 4 * thread; at < elements; at += 4 * threads) {
    const float4 of = *reinterpret_cast<const float4*>(from + at);
    found.add(of.x), found.add(of.y), found.add(of.z), found.add(of.w);
  }
  return found;
}

/// The largest finite magnitude of a thread's share.
__device__ inline int largest_finite(const float* from, int elements, int thread, int threads) {
  int largest = 0;
  for (int at = thread; at < elements; at += threads) {
    const int bits = magnitude_bits(from[at]);
    if (bits < infinity_bits) largest = max(largest, bits);
  }
  return largest;
}

}  // namespace plumb::cuda::few_weights
