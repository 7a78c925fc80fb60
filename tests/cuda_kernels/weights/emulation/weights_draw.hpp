// Gradients of weights that tests of emulated kernels draw, or write down.
#pragma once

#include <algorithm>

#include "cuda_kernels/fields/emulation/draw.hpp"
#include "plumb/problem_text.hpp"

namespace plumb_test::emulation {

/// The largest of each, and how often an axis has many taps: one time in `many_taps_in`.
struct WeightsRanges {
  int images, depth, rows, columns, line;
  int many_taps_in, many_taps, taps;
  int stride, dilation;
};

class WeightsDrawing : public Drawing {
 public:
  using Drawing::Drawing;

  plumb::ConvProblem problem(int rank, plumb::DType dtype, const WeightsRanges& most) {
    plumb::ConvProblem p;
    p.direction = plumb::Direction::backward_weights;
    p.dtype = dtype;
    p.n = number(1, most.images);
    p.groups = one_in(4) ? number(2, 3) : 1;
    p.c = p.groups * number(1, 5), p.k = p.groups * (one_in(2) ? number(1, 4) : number(5, 20));
    const auto axis = [&](int largest, std::int64_t& extent, std::int64_t& taps,
                          std::int64_t& stride, std::int64_t& dilation, std::int64_t& before,
                          std::int64_t& after) {
      extent = one_in(6) ? number(1, 6) : number(5, largest);
      taps = one_in(most.many_taps_in) ? number(1, most.many_taps) : number(1, most.taps);
      stride = one_in(3) ? number(1, most.stride) : 1;
      dilation = one_in(4) ? number(1, most.dilation) : 1;
      draw_padding((taps - 1) * dilation, extent, before, after);
    };
    if (rank > 2)
      axis(most.depth, p.d, p.t, p.stride.d, p.dilation.d, p.padding.front, p.padding.back);
    if (rank > 1)
      axis(most.rows, p.h, p.r, p.stride.h, p.dilation.h, p.padding.top, p.padding.bottom);
    axis(rank == 1 ? most.line : most.columns, p.w, p.s, p.stride.w, p.dilation.w, p.padding.left,
         p.padding.right);
    draw_strides(p);
    return plumb::check(p);
  }

 protected:
  /// At least as much as a filter of `reach` more places than one needs.
  void draw_padding(std::int64_t reach, std::int64_t extent, std::int64_t& before,
                    std::int64_t& after) {
    before = one_in(2) ? 0 : number(0, static_cast<int>(reach) + 1);
    after = one_in(2) ? 0 : number(0, static_cast<int>(reach) + 1);
    after += std::max<std::int64_t>(0, reach + 1 - before - extent - after);
  }
  void draw_strides(plumb::ConvProblem& p) {
    p.x_strides = strides(p.x_extents());
    p.w_strides = strides(p.w_extents());
    p.y_strides = strides(p.y_extents());
  }
};

inline plumb::ConvProblem weights_problem(const char* text,
                                          plumb::DType dtype = plumb::DType::f32) {
  plumb::ConvProblem problem = plumb::parse_problem(text).problem;
  problem.direction = plumb::Direction::backward_weights;
  problem.dtype = dtype;
  return plumb::check(problem);
}

}  // namespace plumb_test::emulation
