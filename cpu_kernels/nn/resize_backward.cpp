// The gradient of bilinear interpolation: a part of a row of dx is summed by one thread, over the
// elements of dy that were sampled from it, in their order.
#include <algorithm>
#include <cstdint>

#include "cpu_kernels/nn/between.hpp"
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t tile_columns = 256;

/// The first output that is sampled from `input` or what lies behind it: places grow with outputs.
template <class T>
int64_t first_from(int64_t input, int64_t inputs, int64_t outputs) {
  int64_t low = 0, high = outputs;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (between<T>(middle, inputs, outputs).high >= input)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// The outputs [begin, end) that are sampled from inputs [first, last].
struct Sampled {
  int64_t begin, end;
};
template <class T>
Sampled sampled_from(int64_t first, int64_t last, int64_t inputs, int64_t outputs) {
  // An output's `low` is at most one below its `high`.
  const int64_t begin = first_from<T>(first, inputs, outputs);
  int64_t end = begin;
  if (last + 2 > inputs - 1)
    end = outputs;
  else
    end = first_from<T>(last + 2, inputs, outputs);
  return {begin, std::max(begin, end)};
}

template <class Stored, class T>
void add_row(const Stored* dy, int64_t step, const Sampled& outputs, int64_t inputs,
             int64_t all_outputs, int64_t first, int64_t count, T* sums) {
  const auto add = [&](int64_t input, T value) {
    if (input >= first && input < first + count) sums[input - first] += value;
  };
  for (int64_t q = outputs.begin; q < outputs.end; ++q) {
    const Between<T> place = between<T>(q, inputs, all_outputs);
    const T gradient = widen(dy[q * step]);
    const T low = 1 - place.fraction;
    if (place.low == place.high) {
      add(place.low, (low + place.fraction) * gradient);
    } else {
      add(place.low, low * gradient);
      add(place.high, place.fraction * gradient);
    }
  }
}

template <class Stored>
void sum_part(const ConstTensorView& dy, const TensorView& dx, int64_t n, int64_t c, int64_t h,
              int64_t w, int64_t count) {
  using T = decltype(widen(Stored{}));
  const int64_t height = dx.extent(2), width = dx.extent(3), p_all = dy.extent(2),
                q_all = dy.extent(3);
  const auto* const from =
      static_cast<const Stored*>(dy.data()) + n * dy.stride(0) + c * dy.stride(1);
  T sums[tile_columns] = {};
  if (p_all > 0 && q_all > 0) {
    const Sampled rows = sampled_from<T>(h, h, height, p_all);
    const Sampled columns = sampled_from<T>(w, w + count - 1, width, q_all);
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      const Between<T> place = between<T>(p, height, p_all);
      if (place.low != h && place.high != h) continue;
      const T low = 1 - place.fraction;
      const T weight = place.low == place.high ? low + place.fraction
                       : place.low == h        ? low
                                               : place.fraction;
      T row[tile_columns] = {};
      add_row(from + p * dy.stride(2), dy.stride(3), columns, width, q_all, w, count, row);
      for (int64_t i = 0; i < count; ++i) sums[i] += weight * row[i];
    }
  }
  auto* const to = static_cast<Stored*>(dx.data()) + n * dx.stride(0) + c * dx.stride(1);
  store_row(sums, count, to + h * dx.stride(2) + w * dx.stride(3), dx.stride(3));
}

template <class Stored>
void resize_backward(const ConstTensorView& dy, const TensorView& dx) {
  const Extents& extents = dx.extents();
  const int64_t columns = extents[3];
  const Tiles parts{extents[0], extents[1], extents[2], ceil_div(columns, tile_columns)};
  const int64_t work = std::max(element_count(extents), element_count(dy.extents()));
  parallel_for(threads_for(work), parts.count(), [&](int64_t i) {
    const auto [n, c, h, part] = parts.at(i);
    const int64_t w = part * tile_columns;
    sum_part<Stored>(dy, dx, n, c, h, w, std::min(tile_columns, columns - w));
  });
}

}  // namespace

void cpu_resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) {
  with_type(dx.dtype(), [&](auto stored) { resize_backward<decltype(stored)>(dy, dx); });
}

}  // namespace plumb
