// The axes of a problem as a tensor map has them, w first, and as kernels see those of x.
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

/// An axis of x: where it is folded, its taps are channels of the product.
struct WideImageAxis {
  int extent, taps, stride, dilation, before;
  std::int64_t x_step;  ///< in elements
};

struct WideImageAxes {
  WideImageAxis of[3];

  explicit WideImageAxes(const ConvProblem& p) {
    const WideMapAxes all(p);
    for (int i = 0; i < 3; ++i) {
      const WideMapAxis& axis = all.axis[i];
      of[i] = {.extent = static_cast<int>(axis.extent),
               .taps = static_cast<int>(axis.taps),
               .stride = static_cast<int>(axis.step()),
               .dilation = axis.taps > 1 ? static_cast<int>(axis.dilation) : 1,
               .before = static_cast<int>(axis.before),
               .x_step = axis.extent > 1 ? axis.x_stride : 0};
    }
  }
};

}  // namespace plumb::cuda
