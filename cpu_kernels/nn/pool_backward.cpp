// Gradients of pooling: a tile of dx is summed by one thread, over the windows that reach it in
// their order.
#include <algorithm>
#include <cstdint>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t tile_columns = 128, tile_rows = 16;

struct Range {
  int64_t begin, end;
};

/// One axis of the image, and how windows move along it.
struct Axis {
  int64_t extent, taps, stride, dilation, before, after, outputs;

  int64_t at(int64_t output, int64_t tap) const {
    return output * stride + tap * dilation - before;
  }
  /// The outputs whose windows may reach [begin, end).
  Range reaching(const Range& places) const {
    const int64_t first = places.begin + before - (taps - 1) * dilation;
    const int64_t last = places.end - 1 + before;
    const int64_t begin = std::max<int64_t>(0, ceil_quotient(first, stride));
    return {begin, std::min(outputs, last / stride + 1)};
  }
  /// The taps of an output's window that lie in [begin, end).
  Range taps_in(int64_t output, const Range& places) const {
    const int64_t first = at(output, 0);
    const int64_t begin = std::max<int64_t>(0, ceil_quotient(places.begin - first, dilation));
    const int64_t beyond = std::max<int64_t>(0, ceil_quotient(places.end - first, dilation));
    const int64_t end = std::min(taps, beyond);
    return {std::min(begin, end), end};
  }
  Range inside(int64_t output) const { return taps_in(output, {0, extent}); }
  /// How many taps an average counts.
  int64_t counted(int64_t output, bool padding) const {
    const Range of = padding ? taps_in(output, {-before, extent + after}) : inside(output);
    return of.end - of.begin;
  }
};

struct Axes {
  Axis d, h, w;
  explicit Axes(const PoolBackwardLaunch& launch) : Axes(launch.geometry, launch) {}

 private:
  Axes(const PoolGeometry& g, const PoolBackwardLaunch& l)
      : d{l.dx.extent(2),  g.window.d,     g.stride.d,    g.dilation.d,
          g.padding.front, g.padding.back, l.dy.extent(2)},
        h{l.dx.extent(3), g.window.h,       g.stride.h,    g.dilation.h,
          g.padding.top,  g.padding.bottom, l.dy.extent(3)},
        w{l.dx.extent(4), g.window.w,      g.stride.w,    g.dilation.w,
          g.padding.left, g.padding.right, l.dy.extent(4)} {}
};

/// A part of a plane of dx, and its sums.
template <class T>
struct Tile {
  int64_t d;
  Range rows, columns;
  T sums[tile_rows][tile_columns] = {};

  void add(int64_t h, int64_t w, T value) { sums[h - rows.begin][w - columns.begin] += value; }
  bool has(int64_t at_d, int64_t h, int64_t w) const {
    return at_d == d && h >= rows.begin && h < rows.end && w >= columns.begin && w < columns.end;
  }
};

struct Window {
  int64_t z, p, q;
};

/// Gives an average's share to each tap of the window that lies in the tile.
struct GiveShares {
  template <class Stored, class T>
  static void give(const PoolBackwardLaunch& launch, const Axes& axes, const Stored*, T gradient,
                   const Window& window, Tile<T>& tile) {
    const auto& [z, p, q] = window;
    const bool padding = launch.geometry.count_padding;
    const auto divisor = static_cast<T>(axes.d.counted(z, padding) * axes.h.counted(p, padding)) *
                         static_cast<T>(axes.w.counted(q, padding));
    const T share = gradient / divisor;
    const Range planes = axes.d.taps_in(z, {tile.d, tile.d + 1});
    const Range rows = axes.h.taps_in(p, tile.rows), columns = axes.w.taps_in(q, tile.columns);
    if (planes.begin == planes.end) return;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t s = columns.begin; s < columns.end; ++s)
        tile.add(axes.h.at(p, r), axes.w.at(q, s), share);
  }
};

/// Gives the gradient to the first maximum of the window, or to its last NaN, if that lies in the
/// tile.
struct GiveToMaximum {
  template <class Stored, class T>
  static void give(const PoolBackwardLaunch& launch, const Axes& axes, const Stored* x, T gradient,
                   const Window& window, Tile<T>& tile) {
    const auto& [z, p, q] = window;
    const Strides& steps = launch.x.strides();
    const Range planes = axes.d.inside(z), rows = axes.h.inside(p), columns = axes.w.inside(q);
    T most = 0;
    int64_t at_d = -1, at_h = -1, at_w = -1;
    for (int64_t t = planes.begin; t < planes.end; ++t)
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int64_t d = axes.d.at(z, t), h = axes.h.at(p, r);
        const Stored* const line = x + d * steps[2] + h * steps[3];
        for (int64_t s = columns.begin; s < columns.end; ++s) {
          const int64_t w = axes.w.at(q, s);
          const T value = widen(line[w * steps[4]]);
          if (at_d >= 0 && !(value > most) && value == value) continue;
          most = value, at_d = d, at_h = h, at_w = w;
        }
      }
    if (tile.has(at_d, at_h, at_w)) tile.add(at_h, at_w, gradient);
  }
};

template <class Give, class Stored>
void sum_tile(const PoolBackwardLaunch& launch, const Axes& axes, int64_t n, int64_t c,
              Tile<decltype(widen(Stored{}))>& tile) {
  const ConstTensorView &x = launch.x, &dy = launch.dy;
  const TensorView& dx = launch.dx;
  const auto* const image =
      x.empty() ? nullptr
                : static_cast<const Stored*>(x.data()) + n * x.stride(0) + c * x.stride(1);
  const auto* const from =
      static_cast<const Stored*>(dy.data()) + n * dy.stride(0) + c * dy.stride(1);
  const Range planes = axes.d.reaching({tile.d, tile.d + 1}), rows = axes.h.reaching(tile.rows),
              columns = axes.w.reaching(tile.columns);
  for (int64_t z = planes.begin; z < planes.end; ++z)
    for (int64_t p = rows.begin; p < rows.end; ++p)
      for (int64_t q = columns.begin; q < columns.end; ++q)
        Give::give(launch, axes, image,
                   widen(from[z * dy.stride(2) + p * dy.stride(3) + q * dy.stride(4)]), {z, p, q},
                   tile);
  auto* const to = static_cast<Stored*>(dx.data()) + n * dx.stride(0) + c * dx.stride(1);
  for (int64_t h = tile.rows.begin; h < tile.rows.end; ++h)
    store_row(tile.sums[h - tile.rows.begin], tile.columns.end - tile.columns.begin,
              to + tile.d * dx.stride(2) + h * dx.stride(3) + tile.columns.begin * dx.stride(4),
              dx.stride(4));
}

template <class Give, class Stored>
void pool_backward(const PoolBackwardLaunch& launch) {
  using T = decltype(widen(Stored{}));
  const Axes axes(launch);
  const Extents& dx = launch.dx.extents();
  const int64_t planes = dx[2], rows = dx[3], columns = dx[4];
  const Tiles tiles{dx[0], dx[1] * planes, ceil_div(rows, tile_rows),
                    ceil_div(columns, tile_columns)};
  parallel_for(threads_for(element_count(dx)), tiles.count(), [&](int64_t i) {
    const auto [n, plane, tile_row, tile_column] = tiles.at(i);
    const int64_t h = tile_row * tile_rows, w = tile_column * tile_columns;
    Tile<T> tile{plane % planes,
                 {h, std::min(rows, h + tile_rows)},
                 {w, std::min(columns, w + tile_columns)}};
    sum_tile<Give, Stored>(launch, axes, n, plane / planes, tile);
  });
}

}  // namespace

void cpu_pool_backward(const PoolBackwardLaunch& launch) {
  with_type(launch.dx.dtype(), [&](auto stored) {
    if (launch.geometry.kind == PoolKind::max)
      pool_backward<GiveToMaximum, decltype(stored)>(launch);
    else
      pool_backward<GiveShares, decltype(stored)>(launch);
  });
}

}  // namespace plumb
