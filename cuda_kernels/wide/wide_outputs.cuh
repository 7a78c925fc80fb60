// Neighbouring outputs in registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {

/// Two neighbouring outputs, rounded to nearest where they are halves.
template <class Stored>
struct WidePair {
  static constexpr bool rounds = sizeof(Stored) == 2;  ///< sums to halves
  using Sum = ComputeType<Stored>;
  using Sums = std::conditional_t<std::is_same_v<Sum, double>, double2, float2>;
  using Vector = std::conditional_t<
      !rounds, Sums, std::conditional_t<std::is_same_v<Stored, __half>, __half2, __nv_bfloat162>>;
  Vector of;

  __device__ static WidePair round(Sum first, Sum second) {
    if constexpr (!rounds)
      return {{first, second}};
    else if constexpr (std::is_same_v<Stored, __half>)
      return {__floats2half2_rn(first, second)};
    else
      return {__floats2bfloat162_rn(first, second)};
  }
  __device__ static WidePair of_two(Stored first, Stored second) {
    WidePair pair;
    pair.of.x = first, pair.of.y = second;
    return pair;
  }
  /// Returns them in the type that sums have.
  __device__ Sums floats() const {
    if constexpr (!rounds)
      return of;
    else if constexpr (std::is_same_v<Stored, __half>)
      return __half22float2(of);
    else
      return __bfloat1622float2(of);
  }
  __device__ bool has_nan() const {
    if constexpr (!rounds)
      return of.x != of.x || of.y != of.y;
    else
      return !__hbeq2(of, of);
  }
};

/// Neighbouring outputs that are 16, 8 or, of two bytes each, 4 bytes of y, moved at once.
template <class Stored, int bytes = 16>
struct alignas(bytes) WideVector {
  using Words =
      std::conditional_t<bytes == 16, uint4, std::conditional_t<bytes == 8, uint2, std::uint32_t>>;
  static constexpr int pairs = bytes / static_cast<int>(sizeof(WidePair<Stored>)),
                       count = 2 * pairs;
  WidePair<Stored> pair[pairs];

  __device__ bool has_nan() const {
    bool found = false;
#pragma unroll
    for (const WidePair<Stored>& of : pair) found = found || of.has_nan();
    return found;
  }
  /// Reads or writes all bytes at once.
  __device__ static WideVector load(const void* from) {
    const Words words = *static_cast<const Words*>(from);
    return *reinterpret_cast<const WideVector*>(&words);
  }
  __device__ void store(void* to) const {
    *static_cast<Words*>(to) = *reinterpret_cast<const Words*>(this);
  }
};

}  // namespace plumb::cuda
