// The axes of a copy as they lie in memory: host code alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "cuda_kernels/primitives/index.cuh"
#include "plumb/backend.hpp"

namespace plumb::cuda {

/// One axis of the copy: y's index i shows x at begin + i step.
struct CopiedAxis {
  std::int64_t outputs = 1;  ///< elements of y
  std::int64_t extent = 1;   ///< of x
  std::int64_t begin = 0, step = 1;
  std::int64_t x_step = 0, y_step = 0;
  Boundary boundary = Boundary::zeros;

  /// Whether y shows the elements of x as they follow each other, or a single one of them.
  bool is_plain() const { return begin == 0 && (step == 1 || outputs == 1) && outputs <= extent; }
};
using CopiedAxes = std::array<CopiedAxis, 5>;

inline CopiedAxis copied_axis(const PadLaunch& call, int dimension) {
  CopiedAxis axis{.outputs = call.y.extent(dimension),
                  .extent = call.x.extent(dimension),
                  .x_step = step<std::int64_t>(call.x.extents(), call.x.strides(), dimension),
                  .y_step = step<std::int64_t>(call.y.extents(), call.y.strides(), dimension)};
  if (dimension < 2) return axis;
  const std::size_t along = static_cast<std::size_t>(dimension - 2);
  axis.begin = std::array{call.begin.d, call.begin.h, call.begin.w}[along];
  axis.boundary = std::array{call.boundary.d, call.boundary.h, call.boundary.w}[along];
  // A step to no second element moves nothing, and may be any number.
  if (axis.outputs > 1) axis.step = std::array{call.step.d, call.step.h, call.step.w}[along];
  return axis;
}

/// The axes by their steps in y, the smallest last: what is written decides, since parts of a
/// sector that are written one by one cost more than those that are read.
inline CopiedAxes axes_in_memory(const PadLaunch& call) {
  CopiedAxes all;
  for (int i = 0; i < 5; ++i) all[static_cast<std::size_t>(i)] = copied_axis(call, i);
  std::stable_sort(all.begin(), all.end(), [](const CopiedAxis& a, const CopiedAxis& b) {
    return std::abs(a.y_step) > std::abs(b.y_step);
  });
  // One element is no neighbour of another: such axes come first.
  std::stable_partition(all.begin(), all.end(),
                        [](const CopiedAxis& axis) { return axis.outputs == 1; });
  return all;
}

}  // namespace plumb::cuda
