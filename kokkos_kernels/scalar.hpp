// Stored types: which C++ type each DType is, what it is computed in, conversions that round to
// nearest, and arithmetic that every execution space does alike.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>
#include <string>
#include <type_traits>

#include "plumb/error.hpp"
#include "plumb/tensor.hpp"

namespace plumb::kokkos {

/// What operators without a choice of arithmetic compute in.
template <class Stored>
using ComputeType = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

template <class Stored>
inline constexpr bool is_two_bytes =
    std::is_same_v<Stored, Half> || std::is_same_v<Stored, BFloat16>;

template <class Value>
inline constexpr Value infinity = std::numeric_limits<Value>::infinity();

/// Calls `f(Stored{})` for the one of the listed types that `dtype` is stored as.
template <class... Stored, class F>
void with_stored(DType dtype, F&& f) {
  const bool found = ((dtype == dtype_of<Stored> && (f(Stored{}), true)) || ...);
  if (!found) throw Error(ErrorCode::unsupported, "no kernel for " + std::string(to_string(dtype)));
}
template <class F>
void with_any_stored(DType dtype, F&& f) {
  with_stored<float, double, Half, BFloat16>(dtype, f);
}

template <class To, class From>
KOKKOS_INLINE_FUNCTION To convert(From value) {
  if constexpr (is_two_bytes<From>) {
    return static_cast<To>(static_cast<float>(value));
  } else if constexpr (is_two_bytes<To>) {
    static_assert(std::is_same_v<From, float>, "by way of float, a double would be rounded twice");
    return To(value);
  } else {
    return static_cast<To>(value);
  }
}

KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float value) {
  union {
    float number;
    std::uint32_t bits;
  } both{value};
  return both.bits;
}
KOKKOS_INLINE_FUNCTION float bit_cast_float(std::uint32_t bits) {
  union {
    std::uint32_t bits;
    float number;
  } both{bits};
  return both.number;
}

/// A double on its way to a stored type: as it is for f64, rounded for f32, and for narrower types
/// rounded to odd, which rounded once more is what rounding the double itself would be.
template <class Stored>
KOKKOS_INLINE_FUNCTION ComputeType<Stored> rounded_once(double value) {
  if constexpr (std::is_same_v<Stored, double>) {
    return value;
  } else {
    const auto nearest = static_cast<float>(value);
    if constexpr (std::is_same_v<Stored, float>) return nearest;
    const auto back = static_cast<double>(nearest);
    if (back == value || value != value) return nearest;
    const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
    return bit_cast_float((bits_of(nearest) - (away ? 1u : 0u)) | 1u);
  }
}

/// A product that the compiler may not fuse into an FMA, for results that must not depend on it.
KOKKOS_INLINE_FUNCTION float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
KOKKOS_INLINE_FUNCTION double rounded_product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

}  // namespace plumb::kokkos
