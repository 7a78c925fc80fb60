// Floats are transposed square by square in registers, for packed filters and for images whose
// channels lie side by side (NHWC).
#pragma once

#include <cstdint>
#include <utility>

namespace plumb {
namespace {

template <int n>
struct Square {
  typedef float Row __attribute__((vector_size(n * sizeof(float)), aligned(4), may_alias));

  /// Swaps the blocks that lie on the wrong side, in pairs of rows `distance` apart.
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

  /// Stores to[column * to_step + row] = from[row * step + column] for n rows and columns.
  static void transpose(const float* from, std::int64_t step, float* to, std::int64_t to_step) {
    Row rows[n];
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) rows[i] = *reinterpret_cast<const Row*>(from + i * step);
    swap_blocks<n / 2>(rows, std::make_integer_sequence<int, n>{});
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) *reinterpret_cast<Row*>(to + i * to_step) = rows[i];
  }
};

/// Transposes any number of rows and columns. Where they are no multiple of a square's, the last
/// squares overlap those before.
inline void transpose(const float* from, std::int64_t step, std::int64_t rows, std::int64_t columns,
                      float* to, std::int64_t to_step) {
  constexpr int n = PLUMB_REGISTERS == 32 ? 8 : 4;
  if (rows >= n && columns >= n) {
    for (std::int64_t i = 0; i < rows; i += n)
      for (std::int64_t j = 0; j < columns; j += n) {
        const std::int64_t row = i + n <= rows ? i : rows - n;
        const std::int64_t column = j + n <= columns ? j : columns - n;
        Square<n>::transpose(from + row * step + column, step, to + column * to_step + row,
                             to_step);
      }
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      to[column * to_step + row] = from[row * step + column];
}

}  // namespace
}  // namespace plumb
