// Max and average pooling pass over each row of outputs once for each tap of the window, so that
// the inner loop has neither borders nor index arithmetic.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t tile_columns = 256, tile_rows = 64;

/// The outputs [begin, end) of `count` for which the input at `output * stride + offset` lies in
/// [0, input).
struct Inside {
  int64_t begin, end;
};
Inside inside(int64_t count, int64_t stride, int64_t offset, int64_t input) {
  const auto first_at_least = [&](int64_t position) {  // the first output that reaches it
    return position <= offset ? 0 : (position - offset - 1) / stride + 1;
  };
  const int64_t end = std::min(count, first_at_least(input));
  return {std::min(end, first_at_least(0)), end};
}

/// Returns how many of the window's taps along one side output `i` is averaged over: those inside
/// the image, or with `count_padding` inside the padded image.
int64_t taps_inside(int64_t i, int64_t window, int64_t stride, int64_t dilation, int64_t before,
                    int64_t after, int64_t input, bool count_padding) {
  const int64_t low = count_padding ? -before : 0;
  const int64_t high = count_padding ? input + after : input;
  int64_t count = 0;
  for (int64_t r = 0; r < window; ++r) {
    const int64_t position = i * stride + r * dilation - before;
    count += position >= low && position < high;
  }
  return count;
}

struct Max {
  template <class T>
  static T start() {
    return -std::numeric_limits<T>::infinity();
  }
  /// The maximum is NaN where one of the values is NaN.
  template <class T>
  static T join(T max, T value) {
    return value <= max || max != max ? max : value;
  }
};
struct Sum {
  template <class T>
  static T start() {
    return 0;
  }
  template <class T>
  static T join(T sum, T value) {
    return sum + value;
  }
};

/// Computes joined[i] = join(joined[i], from[i * step]). The compiler knows the steps of dense
/// images, and then uses vectors.
template <class Op, class T, class Stored>
void join_row(const Stored* from, int64_t step, int64_t count, T* joined) {
  const auto loop = [&](auto step_of) {
    for (int64_t i = 0; i < count; ++i)
      joined[i] = Op::join(joined[i], static_cast<T>(widen(from[i * step_of()])));
  };
  switch (step) {
    case 1: return loop([] { return 1; });
    case 2: return loop([] { return 2; });
    case 4: return loop([] { return 4; });
    default: return loop([&] { return step; });
  }
}

/// Some outputs of one plane of one image and channel: rows [p, p_end) and columns [q, q + count).
struct Tile {
  int64_t z, p, p_end, q, count;
};

/// Joins the window of each of the tile's outputs in row `p`, of an image that starts at `x`.
template <class Op, class Stored, class T>
void join_windows(const PoolLaunch& launch, const Stored* x, const Tile& tile, int64_t p,
                  T* joined) {
  const PoolGeometry& g = launch.geometry;
  const ConstTensorView& xs = launch.x;
  const int64_t depth = xs.extent(2), height = xs.extent(3), width = xs.extent(4);
  std::fill_n(joined, tile.count, Op::template start<T>());
  for (int64_t t = 0; t < g.window.d; ++t) {
    const int64_t d = tile.z * g.stride.d + t * g.dilation.d - g.padding.front;
    if (d < 0 || d >= depth) continue;
    for (int64_t r = 0; r < g.window.h; ++r) {
      const int64_t h = p * g.stride.h + r * g.dilation.h - g.padding.top;
      if (h < 0 || h >= height) continue;
      for (int64_t s = 0; s < g.window.w; ++s) {
        const int64_t offset = tile.q * g.stride.w + s * g.dilation.w - g.padding.left;
        const Inside in = inside(tile.count, g.stride.w, offset, width);
        const int64_t w = in.begin * g.stride.w + offset;
        if (in.begin < in.end)
          join_row<Op>(x + (d * xs.stride(2) + h * xs.stride(3) + w * xs.stride(4)),
                       g.stride.w * xs.stride(4), in.end - in.begin, joined + in.begin);
      }
    }
  }
}

/// Computes the tile of one image and channel, which start at `x` and `y`.
template <class Op, class Stored, class T>
void pool_tile(const PoolLaunch& launch, const Stored* x, Stored* y, const Tile& tile) {
  const PoolGeometry& g = launch.geometry;
  const ConstTensorView& xs = launch.x;
  const TensorView& ys = launch.y;
  const bool average = g.kind == PoolKind::average;
  T columns[tile_columns];  // columns of the window that each average is taken over
  for (int64_t i = 0; average && i < tile.count; ++i)
    columns[i] =
        static_cast<T>(taps_inside(tile.q + i, g.window.w, g.stride.w, g.dilation.w, g.padding.left,
                                   g.padding.right, xs.extent(4), g.count_padding));
  const int64_t planes =
      average ? taps_inside(tile.z, g.window.d, g.stride.d, g.dilation.d, g.padding.front,
                            g.padding.back, xs.extent(2), g.count_padding)
              : 1;
  for (int64_t p = tile.p; p < tile.p_end; ++p) {
    T joined[tile_columns];
    join_windows<Op>(launch, x, tile, p, joined);
    if (average) {
      const T rows = static_cast<T>(planes * taps_inside(p, g.window.h, g.stride.h, g.dilation.h,
                                                         g.padding.top, g.padding.bottom,
                                                         xs.extent(3), g.count_padding));
      for (int64_t i = 0; i < tile.count; ++i) joined[i] /= rows * columns[i];
    }
    store_row(joined, tile.count,
              y + (tile.z * ys.stride(2) + p * ys.stride(3) + tile.q * ys.stride(4)), ys.stride(4));
  }
}

template <class Op, class Stored>
void pool(const PoolLaunch& launch) {
  using T = decltype(widen(Stored{}));
  const ConstTensorView& x = launch.x;
  const TensorView& y = launch.y;
  const int64_t images = y.extent(0), channels = y.extent(1), planes = y.extent(2);
  const int64_t rows = y.extent(3), columns = y.extent(4);
  const Tiles tiles{images, channels * planes, ceil_div(rows, tile_rows),
                    ceil_div(columns, tile_columns)};
  parallel_for(threads_for(element_count(x.extents())), tiles.count(), [&](int64_t i) {
    const auto [n, plane, tile_row, tile_column] = tiles.at(i);
    const int64_t c = plane / planes, p = tile_row * tile_rows, q = tile_column * tile_columns;
    pool_tile<Op, Stored, T>(
        launch, static_cast<const Stored*>(x.data()) + (n * x.stride(0) + c * x.stride(1)),
        static_cast<Stored*>(y.data()) + (n * y.stride(0) + c * y.stride(1)),
        {plane % planes, p, std::min(rows, p + tile_rows), q, std::min(tile_columns, columns - q)});
  });
}

}  // namespace

void cpu_pool(const PoolLaunch& launch) {
  with_type(launch.x.dtype(), [&](auto stored) {
    if (launch.geometry.kind == PoolKind::max)
      pool<Max, decltype(stored)>(launch);
    else
      pool<Sum, decltype(stored)>(launch);
  });
}

}  // namespace plumb
