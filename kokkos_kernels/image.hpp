// Images of two or three axes as kernels see them: steps in memory, elements by number, and what a
// window that moves over them reads.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "plumb/types.hpp"

namespace plumb::kokkos {

/// The stride of a dimension; zero along extents of one, where it has no say and may be anything.
inline std::int64_t step(const Extents& extents, const Strides& strides, int dimension) {
  return extents[dimension] > 1 ? strides[dimension] : 0;
}

/// Strides in elements of a tensor N C (D) H W; for y, N K (Z) P Q; for the filters, K C/G (T) R S.
struct Steps {
  std::int64_t n, c, d, h, w;

  Steps(const Extents& extents, const Strides& strides)
      : n(step(extents, strides, 0)),
        c(step(extents, strides, 1)),
        d(extents.rank() == 5 ? step(extents, strides, 2) : 0),
        h(step(extents, strides, extents.rank() - 2)),
        w(step(extents, strides, extents.rank() - 1)) {}

  KOKKOS_INLINE_FUNCTION std::int64_t offset(std::int64_t at_n, std::int64_t at_c,
                                             std::int64_t at_d, std::int64_t at_h,
                                             std::int64_t at_w) const {
    return at_n * n + at_c * c + at_d * d + at_h * h + at_w * w;
  }
};

/// What lies at an index outside the image: boundary_index() on the device.
KOKKOS_INLINE_FUNCTION std::int64_t at_boundary(Boundary boundary, std::int64_t index,
                                                std::int64_t extent) {
  if (index >= 0 && index < extent) return index;
  if (boundary == Boundary::zeros) return -1;
  if (boundary == Boundary::clamp) return index < 0 ? 0 : extent - 1;
  const std::int64_t mirrored = boundary == Boundary::reflect ? 2 * extent - 2 : 2 * extent;
  const std::int64_t period = boundary == Boundary::periodic ? extent : mirrored;
  const std::int64_t rest = index % period, at = rest < 0 ? rest + period : rest;
  if (at < extent) return at;
  return boundary == Boundary::reflect ? period - at : period - 1 - at;
}

struct Place {
  std::int64_t n, c, d, h, w;
};
/// Where the element of this number is in a tensor with these inner extents, the last running
/// fastest.
KOKKOS_INLINE_FUNCTION Place place_of(std::int64_t number, std::int64_t c, std::int64_t d,
                                      std::int64_t h, std::int64_t w) {
  const std::int64_t rows = number / w, planes = rows / h, volumes = planes / d;
  return {volumes / c, volumes % c, planes % d, rows % h, number % w};
}

/// Where the element of a number lies in each of `count` tensors of the same five extents, the last
/// running fastest.
template <int count>
class ElementOffsets {
 public:
  struct Offsets {
    std::int64_t of[count];
  };

  ElementOffsets(const Extents& extents, const Strides (&strides)[count]) {
    for (int i = 0; i < 5; ++i) {
      extents_[i] = extents[i];
      for (int tensor = 0; tensor < count; ++tensor)
        steps_[tensor][i] = step(extents, strides[tensor], i);
    }
  }

  KOKKOS_INLINE_FUNCTION Offsets at(std::int64_t element) const {
    Offsets offsets{};
    for (int i = 4; i >= 0; --i) {
      const std::int64_t index = element % extents_[i];
      element /= extents_[i];
      for (int tensor = 0; tensor < count; ++tensor)
        offsets.of[tensor] += index * steps_[tensor][i];
    }
    return offsets;
  }

 private:
  std::int64_t extents_[5], steps_[count][5];
};

/// Taps of a filter or window along one direction, from `begin` up to `end`.
struct Taps {
  std::int64_t begin, end;
};
/// Those of `taps` that fall on the image, where the first lies at the coordinate `first`.
KOKKOS_INLINE_FUNCTION Taps taps_inside(std::int64_t first, std::int64_t extent, std::int64_t taps,
                                        std::int64_t dilation) {
  const std::int64_t begin = first < 0 ? (dilation - 1 - first) / dilation : 0;
  const std::int64_t beyond = first < extent ? (extent - 1 - first) / dilation + 1 : 0;
  const std::int64_t end = beyond < taps ? beyond : taps;
  return {begin < end ? begin : end, end};
}

/// One axis of the image, and how a window moves along it.
struct Axis {
  std::int64_t extent, taps, stride, dilation, before;
  Boundary boundary;

  /// What moves nothing may be any number: a stride to no second output, dilation of one tap.
  Axis(std::int64_t extent_, std::int64_t taps_, std::int64_t stride_, std::int64_t dilation_,
       std::int64_t before_, std::int64_t outputs, Boundary boundary_ = Boundary::zeros)
      : extent(extent_),
        taps(taps_),
        stride(outputs > 1 ? stride_ : 0),
        dilation(taps > 1 ? dilation_ : 1),
        before(before_),
        boundary(boundary_) {}

  /// The coordinate of an output's first tap.
  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t output) const {
    return output * stride - before;
  }
  /// The taps that read something, where the first lies at `first`.
  KOKKOS_INLINE_FUNCTION Taps taken(std::int64_t first) const {
    if (boundary == Boundary::zeros) return taps_inside(first, extent, taps, dilation);
    return {0, taps};
  }
  /// The coordinate that such a tap reads.
  KOKKOS_INLINE_FUNCTION std::int64_t source(std::int64_t first, std::int64_t tap) const {
    return at_boundary(boundary, first + tap * dilation, extent);
  }
};

}  // namespace plumb::kokkos
