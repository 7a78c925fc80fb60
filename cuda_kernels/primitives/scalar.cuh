// Stored types on the device: which C++ type each DType is, which type it is computed in, and
// conversions that round to nearest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <limits>
#include <type_traits>

#include "plumb/error.hpp"
#include "plumb/types.hpp"

namespace plumb::cuda {

template <class Stored>
inline constexpr DType dtype_of_stored = [] {
  if constexpr (std::is_same_v<Stored, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<Stored, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<Stored, __half>)
    return DType::f16;
  else {
    static_assert(std::is_same_v<Stored, __nv_bfloat16>);
    return DType::bf16;
  }
}();

/// The type that operators without a choice of arithmetic compute in.
template <class Stored>
using ComputeType = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

template <class Value>
inline constexpr Value infinity = std::numeric_limits<Value>::infinity();

/// Calls `f(Stored{})` for the one of the listed types that stores `dtype`.
template <class... Stored, class F>
void with_stored(DType dtype, F&& f) {
  const bool found = ((dtype == dtype_of_stored<Stored> && (f(Stored{}), true)) || ...);
  if (!found) throw Error(ErrorCode::unsupported, "no kernel for " + std::string(to_string(dtype)));
}
template <class F>
void with_any_stored(DType dtype, F&& f) {
  with_stored<float, double, __half, __nv_bfloat16>(dtype, f);
}

template <class To, class From>
__device__ To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<From, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else if constexpr (std::is_same_v<To, __half>) {
    static_assert(std::is_same_v<From, float>, "by way of float, a double would be rounded twice");
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    static_assert(std::is_same_v<From, float>, "by way of float, a double would be rounded twice");
    return __float2bfloat16_rn(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Returns a product that the compiler may not fuse into an FMA, for results that must not depend
/// on it.
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

}  // namespace plumb::cuda
