// What lies at an index outside the image, for each boundary.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb::cuda {

/// Returns the index in [0, extent) that `index` shows, or -1 for a zero: boundary_index() on the
/// device. The image is rarely continued more than once, and a division of 64 bits is a function:
/// it is taken only beyond that.
template <class Index>
__device__ inline Index at_boundary(Boundary boundary, Index index, Index extent) {
  if (index >= 0 && index < extent) return index;
  if (boundary == Boundary::zeros) return -1;
  if (boundary == Boundary::clamp) return index < 0 ? 0 : extent - 1;
  const bool reflect = boundary == Boundary::reflect;
  const Index period = boundary == Boundary::periodic ? extent
                       : !reflect                     ? 2 * extent
                       : extent > 1                   ? 2 * extent - 2
                                                      : 1;
  if (index < -period || (index > 0 && index - period >= period)) index %= period;
  index += index < 0 ? period : index >= period ? -period : 0;
  return index < extent ? index : period - (reflect ? 0 : 1) - index;
}

}  // namespace plumb::cuda
