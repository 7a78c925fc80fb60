// What the emulated tests draw their problems with.
#pragma once

#include <cstdint>
#include <utility>

#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// Numbers and strides from a seed.
class Drawing {
 public:
  explicit Drawing(std::uint32_t seed) : random_(seed) {}
  int number(int low, int high) { return static_cast<int>(random_.integer(low, high)); }
  bool one_in(int count) { return number(1, count) == 1; }

  /// Dense ones, or with room behind the rows, or in another order, or mirrored.
  plumb::Strides strides(const plumb::Extents& extents) {
    plumb::Dims order = extents;
    for (int i = 0; i < order.rank(); ++i) order[i] = i;
    if (one_in(4)) std::swap(order[number(0, order.rank() - 1)], order[order.rank() - 1]);
    plumb::Strides strides = strides_in_order(extents, order, one_in(2) ? 0 : 4 * number(0, 2));
    if (one_in(4)) {
      std::int64_t& mirrored = strides[number(0, strides.rank() - 1)];
      mirrored = -mirrored;
    }
    return strides;
  }

 private:
  Random random_;
};

}  // namespace plumb_test::emulation
