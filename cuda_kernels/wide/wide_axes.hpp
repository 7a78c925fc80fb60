// The axes of a problem as a tensor map has them, w first: host code alone.
#pragma once

#include <cstdint>

#include "plumb/conv.hpp"

namespace plumb::cuda {

struct WideMapAxis {
  const char* name;
  std::int64_t extent, taps, outputs, stride, dilation, before, x_stride;

  // A stride to no second output and a dilation of one tap move nothing and may be any number.
  std::int64_t step() const { return outputs > 1 ? stride : 1; }
  std::int64_t reach() const { return taps > 1 ? (taps - 1) * dilation : 0; }
  std::int64_t lower() const { return -before; }
  std::int64_t upper() const { return lower() + (outputs - 1) * step() - (extent - 1); }
  bool is_plain() const { return extent == 1 && taps == 1 && outputs == 1 && before == 0; }
};

struct WideMapAxes {
  int count;  ///< of the map
  WideMapAxis axis[3];

  explicit WideMapAxes(const ConvProblem& p) {
    const Strides& x = p.x_strides;
    const int rank = x.rank();
    axis[0] = {"columns", p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left, x[rank - 1]};
    axis[1] = {"rows", p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top, x[rank - 2]};
    axis[2] = {
        "planes", p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front, rank == 5 ? x[2] : 0};
    count = p.has_depth() ? 3 : axis[1].is_plain() ? 1 : 2;
  }
};

}  // namespace plumb::cuda
