// ReLU takes max(x, 0) of each element; NaN stays NaN.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t chunk = 16384;  ///< elements of a row that one thread takes at a time

/// The dimensions of both tensors, y's largest step first. Those of extent one are left out, and
/// those that follow each other without a gap are joined: dense tensors of any rank and layout
/// become one row.
struct Loop {
  int64_t extent, x_step, y_step;
};
struct Loops {
  std::array<Loop, Dims::max_rank> loops;
  int rank = 0;
};
Loops loops_over(const ConstTensorView& x, const TensorView& y) {
  Loops result;
  auto& [loops, rank] = result;
  for (int i = 0; i < y.rank(); ++i) {
    if (y.extent(i) == 1) continue;
    int place = rank++;
    for (; place > 0 && std::abs(loops[place - 1].y_step) < std::abs(y.stride(i)); --place)
      loops[place] = loops[place - 1];
    loops[place] = {y.extent(i), x.stride(i), y.stride(i)};
  }
  if (rank == 0) loops[rank++] = {1, 1, 1};
  int last = 0;
  for (int i = 1; i < rank; ++i) {
    const Loop outer = loops[last], inner = loops[i];
    if (outer.x_step == inner.extent * inner.x_step && outer.y_step == inner.extent * inner.y_step)
      loops[last] = {outer.extent * inner.extent, inner.x_step, inner.y_step};
    else
      loops[++last] = inner;
  }
  rank = last + 1;
  return result;
}

template <class Stored>
void relu_row(const Stored* x, int64_t x_step, Stored* y, int64_t y_step, int64_t count) {
  const auto loop = [&](auto x_step_of, auto y_step_of) {
    for (int64_t i = 0; i < count; ++i) {
      const auto value = widen(x[i * x_step_of()]);
      y[i * y_step_of()] = narrow<Stored>(value < 0 ? 0 : value);
    }
  };
  if (x_step == 1 && y_step == 1)
    loop([] { return 1; }, [] { return 1; });
  else
    loop([&] { return x_step; }, [&] { return y_step; });
}

template <class Stored>
void relu(const ConstTensorView& x, const TensorView& y) {
  const Loops all = loops_over(x, y);
  const Loop row = all.loops[all.rank - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < all.rank; ++i) rows *= all.loops[i].extent;
  const int64_t chunks = ceil_div(row.extent, chunk);
  parallel_for(threads_for(rows * row.extent), rows * chunks, [&](int64_t task) {
    const int64_t begin = task % chunks * chunk;
    int64_t x_offset = begin * row.x_step, y_offset = begin * row.y_step;
    int64_t rest = task / chunks;
    for (int i = all.rank - 2; i >= 0; --i) {
      const int64_t index = rest % all.loops[i].extent;
      rest /= all.loops[i].extent;
      x_offset += index * all.loops[i].x_step;
      y_offset += index * all.loops[i].y_step;
    }
    relu_row(static_cast<const Stored*>(x.data()) + x_offset, row.x_step,
             static_cast<Stored*>(y.data()) + y_offset, row.y_step,
             std::min(chunk, row.extent - begin));
  });
}

}  // namespace

void cpu_relu(const ConstTensorView& x, const TensorView& y) {
  with_type(x.dtype(), [&](auto stored) { relu<decltype(stored)>(x, y); });
}

}  // namespace plumb
