// Stored types, emulated: halves are their bits, which core's own conversions read and write.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "plumb/tensor.hpp"

struct __half {
  std::uint16_t bits;
};
struct __nv_bfloat16 {
  std::uint16_t bits;
};

namespace plumb::cuda {

template <class Stored>
using ComputeType = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

template <class Value>
inline constexpr Value infinity = std::numeric_limits<Value>::infinity();

template <class Half>
inline constexpr DType dtype_of_half = std::is_same_v<Half, __half> ? DType::f16 : DType::bf16;

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_arithmetic_v<To>) {
    return static_cast<To>(load_element(TensorView(&value, dtype_of_half<From>, {1}), 0));
  } else {
    To half{};
    store_element(TensorView(&half, dtype_of_half<To>, {1}), 0, static_cast<double>(value));
    return half;
  }
}

}  // namespace plumb::cuda
