// Problems of fields, and cuts of them, that the emulated tests draw.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>

#include "draw.hpp"
#include "field_case.hpp"

namespace plumb_test::emulation {

inline constexpr FieldKernel kernels[] = {FieldKernel::tile, FieldKernel::line,
                                          FieldKernel::columns, FieldKernel::queue,
                                          FieldKernel::toeplitz};
inline constexpr plumb::Boundary boundaries[] = {
    plumb::Boundary::zeros, plumb::Boundary::periodic, plumb::Boundary::reflect,
    plumb::Boundary::symmetric, plumb::Boundary::clamp};

/// Draws problems from a seed, with sizes around those of tiles.
class Draw : public Drawing {
 public:
  using Drawing::Drawing;
  plumb::Boundary boundary() { return boundaries[number(0, 4)]; }

  plumb::ConvProblem problem(int rank) {
    plumb::ConvProblem p;
    p.dtype = one_in(2) ? plumb::DType::f32 : plumb::DType::f64;
    p.n = number(1, 2);
    p.c = one_in(2) ? 1 : number(2, 4), p.k = one_in(2) ? 1 : number(2, 4);
    p.boundary = {boundary(), boundary(), boundary()};
    odd_ = 3 + 2 * number(0, 3);
    if (rank > 2) draw_axis(rank, p.d, p.t, p.padding.front, p.padding.back);
    if (rank > 1) draw_axis(rank, p.h, p.r, p.padding.top, p.padding.bottom);
    draw_axis(rank, p.w, p.s, p.padding.left, p.padding.right);
    p.x_strides = strides(p.x_extents());
    p.w_strides = strides(p.w_extents());
    p.y_strides = strides(p.y_extents());
    return p;
  }

  FieldOptions options() {
    return {.bias = one_in(2),
            .relu = one_in(3),
            .accumulate = one_in(3),
            .vectors = !one_in(4),
            .special = one_in(5)};
  }

  FieldChoice choice(FieldKernel kernel) {
    FieldChoice choice{.kernel = kernel};
    if (one_in(2)) choice.threads_w = 8 << number(0, 3);
    if (one_in(3)) choice.threads = 128 << number(0, 1);
    if (one_in(3)) choice.tile_u = number(1, 40);
    if (one_in(2)) choice.outputs = 4 << number(0, 1);
    choice.in_order = kernel == FieldKernel::tile && one_in(2);
    if (kernel == FieldKernel::line && one_in(2)) choice.filters = number(1, 4);
    if (kernel == FieldKernel::queue)
      choice = {.kernel = kernel,
                .threads = 32 << number(0, 3),
                .tile_u = one_in(3) ? number(1, 40) : 0,
                .queue_cut = one_in(2)
                                 ? 0
                                 : number(1, static_cast<int>(std::size(plumb::cuda::queue_cuts)))};
    return choice;
  }

 private:
  void draw_axis(int rank, std::int64_t& extent, std::int64_t& taps, std::int64_t& before,
                 std::int64_t& after) {
    constexpr int max_extent[] = {0, 600, 80, 24}, max_taps[] = {0, 70, 14, 8};
    extent = one_in(6) ? number(2, 9) : number(10, max_extent[rank]);
    if (one_in(2)) extent = (extent + 3) / 4 * 4;
    // Some kernels are for 3, 5, 7 and 9 taps alone, or for as many along two axes.
    taps = one_in(3) ? number(1, max_taps[rank]) : one_in(5) ? 1 : odd_;
    before = one_in(3) ? number(0, static_cast<int>(taps) + 2) : taps / 2;
    after = one_in(3) ? number(0, static_cast<int>(taps) + 2) : (taps - 1) / 2;
    after += std::max<std::int64_t>(0, taps - before - extent - after);
  }

  int odd_ = 3;
};

inline std::string name(FieldKernel kernel) {
  return kernel == FieldKernel::toeplitz ? "toeplitz"
         : kernel == FieldKernel::tile   ? "tile"
         : kernel == FieldKernel::line   ? "line"
         : kernel == FieldKernel::queue  ? "queue"
                                         : "columns";
}

}  // namespace plumb_test::emulation
