// Taps that lie in zeros are left out: outputs of an axis are cut into classes that have the same
// taps inside the image, and a band's copy of x has no padding then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/primitives/ceil_div.hpp"

namespace plumb {

/// Taps [begin, end) of an axis.
struct TapRange {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const TapRange&, const TapRange&) = default;
};

/// One axis of a convolution, and of a band's copy of x, its slab, in which only every `every`-th
/// element of x stands.
struct TapAxis {
  std::int64_t taps, stride, dilation, before, extent;
  std::int64_t every;
  bool skips;  ///< whether taps in zeros are left out, and no zeros copied
  std::int64_t slab_stride() const { return stride / every; }
  std::int64_t slab_dilation() const { return taps == 1 ? 0 : dilation / every; }
  /// Elements of the slab under `outputs` neighbours.
  std::int64_t count(std::int64_t outputs) const {
    return (outputs - 1) * slab_stride() + (taps - 1) * slab_dilation() + 1;
  }
  /// The same, of those that stand in a slab.
  std::int64_t slab_count(std::int64_t outputs) const {
    return skips ? std::min(count(outputs), ceil_div(extent, every)) : count(outputs);
  }
  /// Where output `at` has its first tap in x.
  std::int64_t first(std::int64_t at) const { return at * stride - before; }
  /// The taps of output `at` that lie in x.
  TapRange inside(std::int64_t at) const;
  /// Of the places under `outputs` from `at` on those that stand in a slab.
  TapRange slab_places(std::int64_t at, std::int64_t outputs) const;
};

/// Returns the axis of a filter's `taps`, whose first output has its first tap `before` x's first
/// element.
TapAxis tap_axis(std::int64_t taps, std::int64_t stride, std::int64_t dilation, std::int64_t before,
                 std::int64_t extent, bool skips);

/// Outputs [begin, end) of an axis whose taps in x are the same.
struct TapClass {
  std::int64_t begin, end;
  TapRange taps;
  std::int64_t count() const { return end - begin; }
};

/// An axis of more classes is not cut into them.
inline constexpr std::size_t max_tap_classes = 65;

/// Returns the classes of outputs [0, outputs) in order, at most one more than `max_tap_classes`;
/// of an axis that does not skip one class of all taps.
std::vector<TapClass> tap_classes(const TapAxis& axis, std::int64_t outputs);

}  // namespace plumb
