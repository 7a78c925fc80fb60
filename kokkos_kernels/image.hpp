// Tensors of rank 4 as kernels see them: steps in memory, elements by number, and the taps of a
// window that lie on the image.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "plumb/types.hpp"

namespace plumb::kokkos {

/// The stride of a dimension; zero along extents of one, where it has no say and may be anything.
inline std::int64_t step(const Extents& extents, const Strides& strides, int dimension) {
  return extents[dimension] > 1 ? strides[dimension] : 0;
}

/// Strides in elements of a tensor N C H W; for y, N K P Q; for the filters, K C/G R S.
struct Steps {
  std::int64_t n, c, h, w;

  Steps(const Extents& extents, const Strides& strides)
      : n(step(extents, strides, 0)),
        c(step(extents, strides, 1)),
        h(step(extents, strides, 2)),
        w(step(extents, strides, 3)) {}

  KOKKOS_INLINE_FUNCTION std::int64_t offset(std::int64_t at_n, std::int64_t at_c,
                                             std::int64_t at_h, std::int64_t at_w) const {
    return at_n * n + at_c * c + at_h * h + at_w * w;
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
  std::int64_t n, c, h, w;
};
/// Where the element of this number is in a tensor with these inner extents, the last running
/// fastest.
KOKKOS_INLINE_FUNCTION Place place_of(std::int64_t number, std::int64_t c, std::int64_t h,
                                      std::int64_t w) {
  const std::int64_t rows = number / w, planes = rows / h;
  return {planes / c, planes % c, rows % h, number % w};
}

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

}  // namespace plumb::kokkos
