// Filters in the order in which runs of sums read them.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_reference/conv_block.hpp"
#include "cpu_reference/products.inl"
#include "cpu_reference/rows.hpp"

namespace plumb {
namespace {

template <int n>
struct Square {
  typedef float Row __attribute__((vector_size(n * sizeof(float)), aligned(4), may_alias));

  /// Swaps, in pairs of rows `distance` apart, the blocks that lie on the wrong side.
  template <int distance, int... lane>
  static void swap_blocks(Row (&rows)[n], std::integer_sequence<int, lane...>) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i)
      if (!(i & distance)) {
        const Row a = rows[i], b = rows[i + distance];
        rows[i] = __builtin_shufflevector(a, b, (lane & distance ? n + lane - distance : lane)...);
        rows[i + distance] =
            __builtin_shufflevector(a, b, (lane & distance ? n + lane : lane + distance)...);
      }
    if constexpr (distance > 1)
      swap_blocks<distance / 2>(rows, std::integer_sequence<int, lane...>{});
  }

  /// to[n * column + row] = from[row * step + column] for n rows and columns.
  static void transpose(const float* from, std::int64_t step, float* to) {
    Row rows[n];
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) rows[i] = *reinterpret_cast<const Row*>(from + i * step);
    swap_blocks<n / 2>(rows, std::make_integer_sequence<int, n>{});
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) *reinterpret_cast<Row*>(to + i * n) = rows[i];
  }
};

template <class Stored, class Real>
void pack_stored(const ConvShape& conv, std::int64_t group, FilterRange range, Real* packed) {
  const auto* const filters =
      static_cast<const Stored*>(conv.filters) + (group * conv.group_k + range.k) * conv.w_k;
  const bool dense = conv.w_s == 1 && conv.w_r == conv.s && conv.w_c == conv.r * conv.s;
  const std::int64_t terms = conv.terms();
  std::int64_t term = 0;
  if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
    if (dense && range.count == most_filters)
      for (; term + most_filters <= terms; term += most_filters)
        Square<most_filters>::transpose(filters + term, conv.w_k, packed + term * most_filters);
  for (; term < terms; ++term) {
    const std::int64_t s = term % conv.s, r = term / conv.s % conv.r, c = term / conv.s / conv.r;
    const Stored* const from = filters + c * conv.w_c + r * conv.w_r + s * conv.w_s;
    for (std::int64_t i = 0; i < range.count; ++i)
      packed[term * range.count + i] = static_cast<Real>(widen(from[i * conv.w_k]));
  }
}

}  // namespace
}  // namespace plumb
