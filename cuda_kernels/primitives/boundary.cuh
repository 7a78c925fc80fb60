// What lies at an index outside the image, for each boundary.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb::cuda {

/// Returns the index in [0, extent) that `index` shows, or -1 for a zero: boundary_index() on the
/// device. The remainders are taken only where the index lies outside.
template <class Index>
__device__ inline Index at_boundary(Boundary boundary, Index index, Index extent) {
  if (index >= 0 && index < extent) return index;
  const auto within = [index](Index period) {
    const Index rest = index % period;
    return rest < 0 ? rest + period : rest;
  };
  switch (boundary) {
    case Boundary::zeros: return -1;
    case Boundary::periodic: return within(extent);
    case Boundary::reflect: {
      const Index at = within(2 * extent - 2);
      return at < extent ? at : 2 * extent - 2 - at;
    }
    case Boundary::symmetric: {
      const Index at = within(2 * extent);
      return at < extent ? at : 2 * extent - 1 - at;
    }
    case Boundary::clamp: return index < 0 ? 0 : extent - 1;
  }
  return -1;
}

}  // namespace plumb::cuda
