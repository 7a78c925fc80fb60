// The transpose of padding: what a boundary shows beyond the image is added to where it came from.
#pragma once

#include "plumb/backend.hpp"

namespace plumb {

/// Adds to the elements of `padded` that are the image, `image` of them from `before` on along D, H
/// and W, those around it that the boundary shows there. The order of the sums is fixed: columns
/// first, each outwards from the edge, those before the image first, then rows, then planes.
void fold(BackendQueue& queue, const TensorView& padded, const Extents& image, const Triple& before,
          const Boundaries& boundary);

/// The most elements that are added to one along an axis, itself included.
std::int64_t folded_at_most(Boundary boundary, std::int64_t extent, std::int64_t before,
                            std::int64_t after);

}  // namespace plumb
