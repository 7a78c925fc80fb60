// Bilinear interpolation: each row of the input is interpolated along its width once, and rows of
// the output between the same two share the result.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "cpu_kernels/nn/between.hpp"
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t tile_columns = 256, tile_rows = 64;

template <class T>
T interpolate(T a, T b, T fraction) {
  return a + fraction * (b - a);
}

/// Computes rows [p, p_end) and columns [q, q_end) of one image and channel, which start at `x` and
/// `y`.
template <class Stored>
void resize_tile(const ConstTensorView& xs, const Stored* x, const TensorView& ys, Stored* y,
                 int64_t p, int64_t p_end, int64_t q, int64_t q_end) {
  using T = decltype(widen(Stored{}));
  const int64_t count = q_end - q;
  const int64_t x_w = xs.stride(3);
  Between<T> columns[tile_columns];
  for (int64_t i = 0; i < count; ++i) columns[i] = between<T>(q + i, xs.extent(3), ys.extent(3));

  struct Row {
    int64_t h = -1;
    T values[tile_columns];
  };
  Row first, second;
  Row *upper = &first, *lower = &second;
  const auto fill = [&](Row& row, int64_t h) {
    if (row.h == h) return;
    row.h = h;
    const Stored* from = x + h * xs.stride(2);
    for (int64_t i = 0; i < count; ++i) {
      const Between<T>& c = columns[i];
      row.values[i] = interpolate(widen(from[c.low * x_w]), widen(from[c.high * x_w]), c.fraction);
    }
  };
  for (; p < p_end; ++p) {
    const Between<T> rows = between<T>(p, xs.extent(2), ys.extent(2));
    if (lower->h == rows.low) std::swap(upper, lower);
    fill(*upper, rows.low);
    fill(*lower, rows.high);
    T values[tile_columns];
    for (int64_t i = 0; i < count; ++i)
      values[i] = interpolate(upper->values[i], lower->values[i], rows.fraction);
    store_row(values, count, y + (p * ys.stride(2) + q * ys.stride(3)), ys.stride(3));
  }
}

template <class Stored>
void resize(const ConstTensorView& x, const TensorView& y) {
  const int64_t images = y.extent(0), channels = y.extent(1);
  const int64_t rows = y.extent(2), columns = y.extent(3);
  const Tiles tiles{images, channels, ceil_div(rows, tile_rows), ceil_div(columns, tile_columns)};
  parallel_for(threads_for(element_count(y.extents())), tiles.count(), [&](int64_t i) {
    const auto [n, c, tile_row, tile_column] = tiles.at(i);
    const int64_t p = tile_row * tile_rows, q = tile_column * tile_columns;
    resize_tile<Stored>(x,
                        static_cast<const Stored*>(x.data()) + (n * x.stride(0) + c * x.stride(1)),
                        y, static_cast<Stored*>(y.data()) + (n * y.stride(0) + c * y.stride(1)), p,
                        std::min(rows, p + tile_rows), q, std::min(columns, q + tile_columns));
  });
}

}  // namespace

void cpu_resize_bilinear(const ConstTensorView& x, const TensorView& y) {
  with_type(x.dtype(), [&](auto stored) { resize<decltype(stored)>(x, y); });
}

}  // namespace plumb
