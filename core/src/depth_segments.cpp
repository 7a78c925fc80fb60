#include "depth_segments.hpp"

#include <algorithm>

namespace plumb {
namespace {

/// The taps of one plane of the output that lie inside the image: [begin, end).
struct Taps {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Taps&, const Taps&) = default;
};

Taps taps_inside(const ConvProblem& p, std::int64_t z) {
  const std::int64_t first = z * p.stride.d - p.padding.front, step = p.dilation.d;
  const std::int64_t begin = first < 0 ? (-first + step - 1) / step : 0;
  const std::int64_t end = first < p.d ? (p.d - 1 - first) / step + 1 : 0;
  const Taps taps{std::min(begin, p.t), std::clamp<std::int64_t>(end, 0, p.t)};
  return taps.begin < taps.end ? taps : Taps{};
}

/// Planes [z, z + planes) with these taps.
DepthSegment segment(const ConvProblem& whole, const Taps& taps, std::int64_t z,
                     std::int64_t planes) {
  DepthSegment part{.problem = whole};
  ConvProblem& p = part.problem;
  p.padding.front = p.padding.back = 0;
  part.y = z * whole.y_strides[2];
  if (taps == Taps{}) {
    // The bias alone: one tap, on an image of one row that all windows lie above.
    p.d = p.t = p.h = 1;
    p.stride.h = 2;
    p.padding.top = 2 * (whole.p() - 1) + whole.dilation.h * (whole.r - 1) + 1;
    p.padding.bottom = 0;
    p.boundary = {};
  } else {
    const std::int64_t first =
        z * whole.stride.d + taps.begin * whole.dilation.d - whole.padding.front;
    p.t = taps.end - taps.begin;
    p.d = (planes - 1) * p.stride.d + (p.t - 1) * p.dilation.d + 1;
    part.x = first * whole.x_strides[2];
    part.w = taps.begin * whole.w_strides[2];
  }
  p.w_strides = {};
  p = check(p);
  return part;
}

}  // namespace

bool pads_depth_with_zeros(const ConvProblem& p) {
  if (!p.has_depth() || p.boundary.d != Boundary::zeros) return false;
  const std::int64_t planes = p.z();
  return taps_inside(p, 0) != Taps{0, p.t} || taps_inside(p, planes - 1) != Taps{0, p.t};
}

std::vector<DepthSegment> depth_segments(const ConvProblem& problem) {
  std::vector<DepthSegment> segments;
  const std::int64_t planes = problem.z();
  for (std::int64_t z = 0; z < planes;) {
    const Taps taps = taps_inside(problem, z);
    std::int64_t end = z + 1;
    // Several planes without any tap, or with one plane of the image, are a problem each.
    const bool alone = taps == Taps{};
    while (!alone && end < planes && taps_inside(problem, end) == taps) ++end;
    segments.push_back(segment(problem, taps, z, end - z));
    z = end;
  }
  return segments;
}

}  // namespace plumb
