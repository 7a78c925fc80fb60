// Tensor cores multiply an image's windows, which are the rows of a product. Each scheme says how
// shared memory holds an input element and filters, and what the steps of the product are. A step
// takes segments of eight taps: those of a filter row, of two rows of four, or of four rows of two.
//
// A warp's sixteen rows are eight windows at two rows of outputs, `low` and `high`: lane 4 g + t
// holds taps 2 t and 2 t + 1 of window g for each. The order of the terms within a step is free, so
// that these neighbours in memory may be any two of a fragment's columns. What is the high half for
// one row of the filter is the low half for the next, and is read once.
#pragma once

#include <cuda_bf16.h>

#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/primitives/split.hpp"
#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// Two zeros that the compiler does not know to be zeros.
struct Zeros {
  int low = 0, high = 0;
};
/// Returns the value in a register of its own. A fragment's four registers must lie side by side,
/// and ptxas copies them together anew for each product where it knows them to be copies. A row
/// that is the low half of one fragment and the high half of another is therefore kept twice, each
/// time with its own zero.
__device__ inline Fragment keep(Fragment value, int zero) {
  return value | static_cast<Fragment>(zero);
}

/// Returns the registers of sums as wgmma() wants them: those of one member, eight columns after
/// another.
template <auto member, class Sum, int n8_tiles>
__device__ inline auto sums_of(Sum (&sums)[n8_tiles]) {
  return [&sums](int i) -> float& { return (sums[i / 4].*member)[i % 4]; };
}
/// Pieces of 16 bytes from one matrix of filters to the next, for wgmma().
template <int n8_tiles>
inline constexpr WgmmaMatrix matrix_sixteenths = n8_tiles* wgmma_eight_bytes / 16;

/// In TF32 a row of the fragment is two registers, and a segment is one step.
struct Tf32Windows {
  using Row = uint2;
  using KStep = uint4;  ///< a lane's filters for two segments
  struct Sum {
    float of[4] = {};
    __device__ float operator[](int i) const { return of[i]; }
    __device__ void spoil(int i) { of[i] = quiet_nan; }
    __device__ void settle() { wgmma_settle(of); }
  };
  static constexpr int element_bytes = 4;
  static constexpr int terms = 8;  ///< of a step
  static constexpr double mmas_of_k_step = 2;
  static constexpr int products = 1;  ///< of a term
  static constexpr bool scaled = false;

  __device__ static Row row(const char* at) { return *reinterpret_cast<const uint2*>(at); }
  __device__ static void put(char* to, const float (&two)[2], float) {
    *reinterpret_cast<float2*>(to) = {to_tf32(two[0]), to_tf32(two[1])};
  }
  __device__ static void put(char* to, const float (&four)[4], float) {
    *reinterpret_cast<float4*>(to) = {to_tf32(four[0]), to_tf32(four[1]), to_tf32(four[2]),
                                      to_tf32(four[3])};
  }
  /// The taps are 2 t and 2 t + 1 of one segment, then those of the next.
  __device__ static KStep k_step(const float (&taps)[4]) {
    const auto bits = [](float tap) { return __float_as_uint(to_tf32(tap)); };
    return {bits(taps[0]), bits(taps[1]), bits(taps[2]), bits(taps[3])};
  }
  struct Step {
    Fragment a[2][4] = {};
  };
  __device__ static void take(Step& step, int half, const Row& low, const Row& high, Zeros zero) {
    step.a[half][0] = keep(low.x, zero.low), step.a[half][1] = keep(high.x, zero.high);
    step.a[half][2] = keep(low.y, zero.low), step.a[half][3] = keep(high.y, zero.high);
  }
  __device__ static void one(Sum& sum, const Step& step, const KStep& k_step) {
    mma_tf32(sum.of, step.a[0], {k_step.x, k_step.y});
  }
  __device__ static void two(Sum& sum, const Step& step, const KStep& k_step) {
    one(sum, step, k_step);
    mma_tf32(sum.of, step.a[1], {k_step.z, k_step.w});
  }
  /// Four warps together multiply their step by a k step of all filters at `w`, by both of its
  /// segments or, if not `both`, by the first.
  template <bool both, int n8_tiles>
  __device__ static void warpgroup(Sum (&sums)[n8_tiles], const Step& step, WgmmaMatrix w) {
    wgmma<float, n8_tiles>(sums_of<&Sum::of>(sums), step.a[0], w);
    if constexpr (both)
      wgmma<float, n8_tiles>(sums_of<&Sum::of>(sums), step.a[1], w + matrix_sixteenths<n8_tiles>);
  }
};

/// Two elements of 16 bits, of the type that instructions on both of them take.
template <class Half>
using HalfPair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;

/// Returns two elements of 16 bits in a register, rounded to nearest.
template <class Half>
__device__ inline Fragment two_halves(float first, float second) {
  if constexpr (std::is_same_v<Half, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const Fragment*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const Fragment*>(&pair);
  }
}
template <class Half>
__device__ inline void multiply(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  if constexpr (std::is_same_v<Half, __half>)
    mma_fp16(d, a, b);
  else
    mma_bf16(d, a, b);
}
template <class Half>
__device__ inline void multiply(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  if constexpr (std::is_same_v<Half, __half>)
    mma_fp16(d, a, b);
  else
    mma_bf16(d, a, b);
}

/// In FP16 or BF16 a row of the fragment is one register, and two segments are one step.
template <class Half>
struct HalfWindows {
  using Row = Fragment;
  using KStep = uint2;
  using Sum = Tf32Windows::Sum;
  static constexpr int element_bytes = 2;
  static constexpr int terms = 16;
  static constexpr double mmas_of_k_step = 1;
  static constexpr int products = 1;
  static constexpr bool scaled = false;

  __device__ static Row row(const char* at) { return *reinterpret_cast<const Row*>(at); }
  __device__ static void put(char* to, const float (&two)[2], float) {
    *reinterpret_cast<Fragment*>(to) = two_halves<Half>(two[0], two[1]);
  }
  __device__ static void put(char* to, const float (&four)[4], float) {
    *reinterpret_cast<uint2*>(to) = {two_halves<Half>(four[0], four[1]),
                                     two_halves<Half>(four[2], four[3])};
  }
  __device__ static KStep k_step(const float (&taps)[4]) {
    return {two_halves<Half>(taps[0], taps[1]), two_halves<Half>(taps[2], taps[3])};
  }
  struct Step {
    Fragment a[4] = {};
  };
  __device__ static void take(Step& step, int half, const Row& low, const Row& high, Zeros zero) {
    step.a[2 * half] = keep(low, zero.low), step.a[2 * half + 1] = keep(high, zero.high);
  }
  __device__ static void one(Sum& sum, const Step& step, const KStep& k_step) {
    multiply<Half>(sum.of, {step.a[0], step.a[1]}, k_step.x);
  }
  __device__ static void two(Sum& sum, const Step& step, const KStep& k_step) {
    multiply<Half>(sum.of, step.a, {k_step.x, k_step.y});
  }
  template <bool, int n8_tiles>
  __device__ static void warpgroup(Sum (&sums)[n8_tiles], const Step& step, WgmmaMatrix w) {
    wgmma<Half, n8_tiles>(sums_of<&Sum::of>(sums), step.a, w);
  }
};

/// fp32 becomes FP16 after scaling by a power of two: it keeps as many bits as TF32 has, in half
/// the room and half the steps.
struct ScaledWindows : HalfWindows<__half> {
  static constexpr bool scaled = true;
  /// This was measured beside TF32 on the four layers; predictions rest on the constants of the
  /// other schemes.

  template <int count>
  __device__ static void put(char* to, const float (&values)[count], float scale) {
    float scaled_values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) scaled_values[i] = values[i] * scale;
    HalfWindows::put(to, scaled_values, 1);
  }
};

struct SplitHalves {
  Fragment high, low;

  __device__ SplitHalves(float first, float second) : high(two_halves<__half>(first, second)) {
    const __half2 pair = *reinterpret_cast<const __half2*>(&high);
    // This is exact, and the raising does not wait for the rounding of the high parts.
    low = two_halves<__half>(fmaf(__low2float(pair), -split_raise, first * split_raise),
                             fmaf(__high2float(pair), -split_raise, second * split_raise));
  }
};

/// fp32 becomes fp16 in three products: x = high + low 2^-11 after scaling by a power of two, and
/// the product of the low parts is left out (Ootomo & Yokota 2022). The two small products have
/// sums of their own.
struct SplitWindows {
  struct Row {
    Fragment high, low;
  };
  using KStep = uint4;  ///< a lane's filters: low parts of two pairs, then high ones
  struct Sum {
    float of[4] = {}, small[4] = {};
    __device__ float operator[](int i) const { return fmaf(small[i], 1 / split_raise, of[i]); }
    __device__ void spoil(int i) { of[i] = quiet_nan; }
    __device__ void settle() { wgmma_settle(of), wgmma_settle(small); }
  };
  static constexpr int element_bytes = 4;  ///< high parts of two neighbours, then low ones
  static constexpr int terms = 16;
  static constexpr double mmas_of_k_step = 3;
  static constexpr int products = 3;
  static constexpr bool scaled = true;

  __device__ static Row row(const char* at) {
    const uint2 parts = *reinterpret_cast<const uint2*>(at);
    return {parts.x, parts.y};
  }
  __device__ static void put(char* to, const float (&two)[2], float scale) {
    const SplitHalves halves(two[0] * scale, two[1] * scale);
    *reinterpret_cast<uint2*>(to) = {halves.high, halves.low};
  }
  __device__ static void put(char* to, const float (&four)[4], float scale) {
    const SplitHalves first(four[0] * scale, four[1] * scale);
    const SplitHalves second(four[2] * scale, four[3] * scale);
    *reinterpret_cast<uint4*>(to) = {first.high, first.low, second.high, second.low};
  }
  __device__ static KStep k_step(const float (&taps)[4]) {
    const SplitHalves first(taps[0], taps[1]), second(taps[2], taps[3]);
    return {first.low, second.low, first.high, second.high};
  }
  struct Step {
    Fragment high[4] = {}, low[4] = {};
  };
  __device__ static void take(Step& step, int half, const Row& low, const Row& high, Zeros zero) {
    step.high[2 * half] = keep(low.high, zero.low),
                  step.high[2 * half + 1] = keep(high.high, zero.high);
    step.low[2 * half] = keep(low.low, zero.low),
                 step.low[2 * half + 1] = keep(high.low, zero.high);
  }
  __device__ static void one(Sum& sum, const Step& step, const KStep& k_step) {
    mma_fp16(sum.small, {step.low[0], step.low[1]}, k_step.z);
    mma_fp16(sum.small, {step.high[0], step.high[1]}, k_step.x);
    mma_fp16(sum.of, {step.high[0], step.high[1]}, k_step.z);
  }
  __device__ static void two(Sum& sum, const Step& step, const KStep& k_step) {
    mma_fp16(sum.small, step.low, {k_step.z, k_step.w});
    mma_fp16(sum.small, step.high, {k_step.x, k_step.y});
    mma_fp16(sum.of, step.high, {k_step.z, k_step.w});
  }
  /// The filters' high parts follow their low ones, so that one instruction multiplies both by the
  /// high parts of x. That instruction's first sums are the sums of the other one: ptxas would copy
  /// any others.
  template <bool, int n8_tiles>
  __device__ static void warpgroup(Sum (&sums)[n8_tiles], const Step& step, WgmmaMatrix w) {
    const auto of = sums_of<&Sum::of>(sums);
    const auto small = sums_of<&Sum::small>(sums);
    wgmma<__half, n8_tiles>(small, step.low, w + matrix_sixteenths<n8_tiles>);
    wgmma<__half, 2 * n8_tiles>(
        [&](int i) -> float& { return i < 4 * n8_tiles ? small(i) : of(i - 4 * n8_tiles); },
        step.high, w);
  }
};

}  // namespace plumb::cuda
