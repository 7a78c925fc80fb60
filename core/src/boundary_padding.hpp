// Copies of an image with what its boundaries show around it: algorithms know zeros, and are given
// the rest.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// Makes the padding of all boundaries but zeros a part of the image. The strides of x are left.
inline void take_padding(ConvProblem& problem) {
  const auto take = [](Boundary& boundary, std::int64_t& extent, std::int64_t& before,
                       std::int64_t& after) {
    if (boundary == Boundary::zeros) return;
    extent += before + after;
    before = after = 0;
    boundary = Boundary::zeros;
  };
  Padding& pad = problem.padding;
  take(problem.boundary.d, problem.d, pad.front, pad.back);
  take(problem.boundary.h, problem.h, pad.top, pad.bottom);
  take(problem.boundary.w, problem.w, pad.left, pad.right);
}

/// Returns how far the image lies from the beginning of such a copy.
inline Triple padding_taken(const ConvProblem& problem) {
  const auto taken = [](Boundary boundary, std::int64_t before) {
    return boundary == Boundary::zeros ? std::int64_t{0} : before;
  };
  const Padding& pad = problem.padding;
  return {taken(problem.boundary.d, pad.front), taken(problem.boundary.h, pad.top),
          taken(problem.boundary.w, pad.left)};
}

}  // namespace plumb
