// Cuts a problem with a depth into runs of planes whose windows have the same taps inside the
// image.
#pragma once

#include <cstdint>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb {

/// Some planes of the output as a problem of their own, with no padding along the depth, and where
/// its tensors begin in those of the whole, in elements. Its filters are a dense copy of some
/// planes.
struct DepthSegment {
  ConvProblem problem;
  std::int64_t x = 0, w = 0, y = 0;
};

/// Whether a window of a checked problem reaches into padding of zeros along the depth.
bool pads_depth_with_zeros(const ConvProblem& problem);

/// All planes of the output, in order.
std::vector<DepthSegment> depth_segments(const ConvProblem& problem);

}  // namespace plumb
