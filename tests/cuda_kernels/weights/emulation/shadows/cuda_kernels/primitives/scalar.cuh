// Stored types, emulated: of those of 16 bits the library itself reads and writes one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "plumb/plumb.hpp"

namespace plumb::cuda {

/// An fp16 number, in the place of CUDA's.
struct Half {
  std::uint16_t bits;
};

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half>) {
    return static_cast<To>(load_element(ConstTensorView(&value, DType::f16, {1}), 0));
  } else if constexpr (std::is_same_v<To, Half>) {
    To rounded{};
    store_element(TensorView(&rounded, DType::f16, {1}), 0, value);
    return rounded;
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace plumb::cuda
