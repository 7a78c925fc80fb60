// What emulated tensor cores multiply: numbers of stored bits, and columns by pairs of rows. Most
// of the time of the emulated kernels is spent here.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "plumb/types.hpp"

namespace plumb_test::emulation {

/// Every half as a float: to take its bits apart takes several times as long.
inline const std::vector<float> half_values = [] {
  std::vector<float> all(std::size_t{1} << 16);
  for (std::size_t bits = 0; bits < all.size(); ++bits) {
    plumb::Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    all[bits] = static_cast<float>(half);
  }
  return all;
}();

/// The number of type Half or BFloat16 that has these bits.
template <class Number>
float number_of_bits(std::uint16_t bits) {
  if constexpr (std::is_same_v<Number, plumb::Half>)
    return half_values[bits];
  else
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Two sums, which are added to at once. Each is rounded as it would be alone.
using Pair [[gnu::vector_size(16)]] = double;

/// Adds the products of a column with two rows, term by term.
template <int terms>
Pair with_products(Pair sums, const Pair (&rows)[terms], const double* column) {
  for (int term = 0; term < terms; ++term) sums += rows[term] * column[term];
  return sums;
}

}  // namespace plumb_test::emulation
