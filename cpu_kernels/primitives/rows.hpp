// Rows of elements are widened from the type that is stored to the type that is computed in, and
// rounded back.
//
// Everything here has internal linkage and no branches that would keep a compiler from using
// vectors: sources compiled for several instruction sets include it, and none of them may hand
// the linker a copy that an older machine cannot run.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "plumb/types.hpp"

namespace plumb {
namespace {

/// These replace std::min() and std::max(), which have external linkage.
inline std::int64_t lesser(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t greater(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
/// Returns ceil(a / b) for b > 0.
inline std::int64_t ceil_quotient(std::int64_t a, std::int64_t b) {
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}

template <class T>
inline constexpr bool is_two_bytes = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Calls `f(Stored{})` with the C++ type that `dtype` names.
template <class F>
inline void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::f16: return f(Half{});
    case DType::bf16: return f(BFloat16{});
  }
}

/// Calls `f` as with_type() does if Real holds the type without rounding, and otherwise not at all.
template <class Real, class F>
inline void with_stored(DType dtype, const F& f) {
  with_type(dtype, [&](auto stored) {
    if constexpr (sizeof(stored) <= sizeof(Real)) f(stored);
  });
}

inline float widen(float value) { return value; }
inline double widen(double value) { return value; }
inline float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float widen(Half value) {
  const std::uint32_t bits = value.bits;
  const std::uint32_t shifted = (bits & 0x7fffu) << 13;
  const std::uint32_t exponent = bits & 0x7c00u;
  // This is 2^-14 + m 2^-24, less the 2^-14: it is exact, and free of binary32 subnormals.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + 0x38800000u) - 0x1p-14f);
  const std::uint32_t normal = shifted + 0x38000000u;
  const std::uint32_t special = shifted | 0x7f800000u;  // Inf and NaN
  const std::uint32_t magnitude =
      exponent == 0 ? subnormal : (exponent == 0x7c00u ? special : normal);
  return std::bit_cast<float>(magnitude | ((bits & 0x8000u) << 16));
}

/// Returns `value` in binary32 with the last bit set where digits were lost. Rounding that once
/// more, to a type of at most 22 digits, gives what rounding `value` itself would.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  const bool inexact = back != value && value == value;
  return std::bit_cast<float>(inexact ? (bits - (away ? 1u : 0u)) | 1u : bits);
}
inline float round_to_odd(float value) { return value; }

inline Half narrow_to_half(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = word & 0x7fffffffu;
  // Adding 1/2 leaves the half's last place, 2^-24, as the last place of the sum.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t special =
      magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
  const std::uint32_t rounded = magnitude < 0x38800000u ? subnormal : normal;
  Half half;
  half.bits = static_cast<std::uint16_t>((magnitude >= 0x477ff000u ? special : rounded) |
                                         ((word >> 16) & 0x8000u));
  return half;
}
inline BFloat16 narrow_to_bfloat16(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (word >> 16) | 0x40u;
  BFloat16 result;
  result.bits = static_cast<std::uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  return result;
}

/// Returns `value` rounded once to what is stored.
template <class Stored, class T>
inline Stored narrow(T value) {
  if constexpr (std::is_same_v<Stored, Half>)
    return narrow_to_half(round_to_odd(value));
  else if constexpr (std::is_same_v<Stored, BFloat16>)
    return narrow_to_bfloat16(round_to_odd(value));
  else
    return static_cast<Stored>(value);
}

/// Returns the same, of which with `plus_zero` a zero has no sign: a sum that is rounded to zero
/// may come from either side.
template <bool plus_zero, class Stored, class T>
inline Stored narrowed(T value) {
  Stored stored = narrow<Stored>(value);
  if constexpr (plus_zero && is_two_bytes<Stored>)
    stored.bits = static_cast<std::uint16_t>((stored.bits & 0x7fffu) == 0 ? 0u : stored.bits);
  else if constexpr (plus_zero)
    stored += Stored{0};
  return stored;
}

/// Returns the address of an element, counted from a tensor's pointer.
inline const char* element_at(const void* data, std::int64_t element, DType dtype) {
  return static_cast<const char*>(data) + element * static_cast<std::int64_t>(size_in_bytes(dtype));
}

/// Returns an element of a type that Real holds without rounding.
template <class Real>
inline Real element_of(const void* data, std::int64_t element, DType dtype) {
  Real value = 0;
  with_stored<Real>(dtype, [&](auto stored) {
    value = static_cast<Real>(widen(static_cast<const decltype(stored)*>(data)[element]));
  });
  return value;
}

/// Copies to[i] = from[i * step] for i in [0, count).
template <class Stored, class T>
inline void load_row(const Stored* from, std::int64_t step, std::int64_t count, T* to) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(widen(from[i]));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(widen(from[i * step]));
  }
}

/// Copies to[i * step] = from[i] for i in [0, count).
template <bool plus_zero = false, class T, class Stored>
inline void store_row(const T* from, std::int64_t count, Stored* to, std::int64_t step) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = narrowed<plus_zero, Stored>(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = narrowed<plus_zero, Stored>(from[i]);
  }
}

/// Adds `count` sums to what lies `step` apart in y, and applies the ReLU.
template <bool plus_zero, class Stored, class Real>
inline void add_row(const Real* sums, std::int64_t count, bool relu, Stored* to,
                    std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real value = sums[i] + static_cast<Real>(widen(to[i * step]));
    to[i * step] = narrowed<plus_zero, Stored>(relu && value < 0 ? Real{0} : value);
  }
}

}  // namespace
}  // namespace plumb
