// Draws strides a dimension at a time, from the one that runs fastest.
#include "random_views.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace plumb {
namespace {

using Order = std::array<int, Dims::max_rank>;  ///< dimensions, the slowest first

Order random_order(Random& random, int rank) {
  Order order{};
  std::iota(order.begin(), order.end(), 0);
  switch (random.between(0, 3)) {
    case 0:  // NHWC, NDHWC: channels fastest
      std::rotate(order.begin() + 1, order.begin() + 2, order.begin() + rank);
      break;
    case 1:  // any
      for (int i = rank - 1; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)],
                  order[static_cast<std::size_t>(random.between(0, i))]);
      break;
    default: break;
  }
  return order;
}

/// The step of the next dimension, behind `reach` elements of the faster ones.
std::int64_t with_gap(Random& random, std::int64_t reach) {
  const auto multiple_of = [&](std::int64_t unit) { return (reach + unit - 1) / unit * unit; };
  switch (random.between(0, 5)) {
    case 0: return reach + 1;
    case 1: return multiple_of(4);
    case 2: return multiple_of(16);
    case 3: return multiple_of(8) + 1;
    default: return reach + random.between(1, 9);
  }
}

}  // namespace

Strides random_strides(Random& random, const Extents& extents, bool written) {
  const auto one_in = [&](std::int64_t lots) { return random.between(1, lots) == 1; };
  const Order order = random_order(random, extents.rank());
  // Each of these for the whole tensor first, so that tensors without any stay common.
  const bool gaps = one_in(3), mirrored = one_in(3);
  const bool broadcast = !written && one_in(5), overlapping = !written && one_in(5);
  Strides strides = dense_strides(extents);
  std::int64_t reach = 1;
  for (int i = extents.rank() - 1; i >= 0; --i) {
    const int dimension = order[static_cast<std::size_t>(i)];
    const std::int64_t extent = extents[dimension];
    std::int64_t step = gaps && one_in(2) ? with_gap(random, reach) : reach;
    if (overlapping && one_in(2)) step = random.between(1, std::max<std::int64_t>(1, reach - 1));
    if (broadcast && one_in(2)) step = 0;
    reach = std::max(reach, step * std::max<std::int64_t>(extent, 1));
    if (mirrored && one_in(2)) step = -step;
    if (extent <= 1 && one_in(3)) step = random.between(-3, 40);
    strides[dimension] = step;
  }
  return strides;
}

}  // namespace plumb
