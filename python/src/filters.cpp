// The filters of plumb.ndimage as convolutions of one image by one filter.
#include "filters.hpp"

#include <algorithm>
#include <cstdlib>

#include "plumb/backend.hpp"

namespace plumb::python {
namespace {

using Order = std::array<int, 3>;

/// The axes of an image, the one with the smallest steps last: the kernels read it fastest, and a
/// result may be written with any strides. An image with a step of 0 is read as it stands.
Order order_of(const TensorView& x) {
  Order order{0, 1, 2};
  const int rank = x.rank();
  for (int i = 0; i < rank; ++i)
    if (x.stride(i) == 0) return order;
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](int a, int b) { return std::abs(x.stride(a)) > std::abs(x.stride(b)); });
  return order;
}

/// The view with its axes in this order behind `leading` axes of one element.
TensorView ordered(const TensorView& view, const Order& order, int leading) {
  std::int64_t extents[5] = {1, 1, 1, 1, 1}, strides[5] = {};
  for (int i = 0; i < view.rank(); ++i) {
    extents[leading + i] = view.extent(order[static_cast<std::size_t>(i)]);
    strides[leading + i] = view.stride(order[static_cast<std::size_t>(i)]);
  }
  const auto rank = static_cast<std::size_t>(leading + view.rank());
  return TensorView(view.data(), view.dtype(), Extents(extents, rank), view.device(),
                    Strides(strides, rank));
}

/// The values of the axes in this order, as the last of three.
template <class T>
std::array<T, 3> last_of_three(const std::array<T, 3>& values, const Order& order, int rank,
                               T fill) {
  std::array<T, 3> all{fill, fill, fill};
  for (int i = 0; i < rank; ++i)
    all[static_cast<std::size_t>(3 - rank + i)] =
        values[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  return all;
}

std::array<std::int64_t, 3> behind(const Filter& filter) {
  std::array<std::int64_t, 3> taps{};
  for (int i = 0; i < filter.taps.rank(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    taps[axis] = filter.taps.extent(i) - 1 - filter.before[axis];
  }
  return taps;
}

}  // namespace

bool reads_outside(const Filter& filter) {
  for (int i = 0; i < filter.taps.rank(); ++i)
    if (filter.taps.extent(i) > 1 &&
        filter.boundary[static_cast<std::size_t>(i)] == Boundary::zeros)
      return true;
  return false;
}

Extents padded_extents(const TensorView& x, const Filter& filter) {
  Extents extents = x.extents();
  for (int i = 0; i < x.rank(); ++i) extents[i] += filter.taps.extent(i) - 1;
  return extents;
}

void run_filter(Queue& queue, const TensorView& x, const Filter& filter, const TensorView& y,
                const TensorView& padded) {
  const int rank = x.rank();
  const Order order = order_of(x);
  const auto before = last_of_three<std::int64_t>(filter.before, order, rank, 0);
  const auto boundary = last_of_three(filter.boundary, order, rank, Boundary::zeros);
  ConvGeometry geometry;
  ConvTensors tensors{.w = ordered(filter.taps, order, 2), .y = ordered(y, order, 2)};
  if (padded.empty()) {
    const auto after = last_of_three<std::int64_t>(behind(filter), order, rank, 0);
    geometry.padding = {before[0], before[1], before[2], after[0], after[1], after[2]};
    geometry.boundary = {boundary[0], boundary[1], boundary[2]};
    tensors.x = ordered(x, order, 2);
  } else {
    // Dense in the order of x's axes, whatever that is.
    const TensorView in_order = ordered(padded, order, 0);
    const TensorView dense(padded.data(), padded.dtype(), in_order.extents(), padded.device());
    const Order as_it_stands{0, 1, 2};
    queue.backend().pad({.x = ordered(x, order, 5 - rank),
                         .y = ordered(dense, as_it_stands, 5 - rank),
                         .begin = {-before[0], -before[1], -before[2]},
                         .boundary = {boundary[0], boundary[1], boundary[2]},
                         .outside = filter.outside});
    tensors.x = ordered(dense, as_it_stands, 2);
  }
  ConvOptions options;
  options.accumulate = filter.accumulate;
  conv(queue, tensors, geometry, std::move(options));
}

}  // namespace plumb::python
