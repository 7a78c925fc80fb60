// What becomes of interleaved.cu's sums: scale, bias and activation, and their way to y.
#pragma once

#include "cuda_kernels/common/direct_sum.cuh"
#include "cuda_kernels/common/interleaved_shape.cuh"
#include "cuda_kernels/common/larger.cuh"
#include "cuda_kernels/common/window_filters.cuh"

namespace plumb::cuda {

/// The filters of a warp's rows of a product.
struct WarpFilters {
  int first, count;  ///< of the group, and how many of them there are
  int first_k;

  template <class Shape>
  __device__ WarpFilters(const Shape& shape, const InterleavedTeam& team, int warp, int filters)
      : first(warp * filters), first_k(team.number * shape.group_filters + first) {
    count = min(shape.conv.k.value() - first_k, filters);
  }
};

/// Sums outputs again as the definition says, of a warp's rows and a pass: all of them, or those
/// that are NaN.
template <int rows, int columns, class Shape>
__device__ void sum_again(const Shape& shape, const InterleavedItem& item, int first,
                          const WarpFilters& filters, bool all) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * interleaved_columns; i += 32) {
    const int row = i / interleaved_columns, filter = row / (rows * columns),
              below = row / columns % rows;
    const InterleavedPlace place(shape, item, first + i % interleaved_columns, rows, columns,
                                 row % columns);
    if (below >= place.rows_left || filter >= filters.count) continue;
    do_over(shape.conv, shape.x, shape.w, shape.y, shape.epilogue, place.n,
            filters.first_k + filter, place.p + below, place.q, all);
  }
}

/// Writes what is staged to y, pass after pass: each warp the rows that one of a warpgroup's made,
/// its lanes neighbours in a row of y.
template <int rows, int columns, class Shape>
__device__ void write(const Shape& shape, InterleavedControl& control) {
  using Stored = typename Shape::Stored;
  const ConvShape<int>& conv = shape.conv;
  const InterleavedTeam team(shape);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32, beside = lane % columns;
  constexpr int chunks = interleaved_columns / 32;
  const WarpFilters filters(shape, team, warp, 16 / (rows * columns));
  int pass = 0;
  for (int number = team.first; number < shape.items; number += team.members) {
    const InterleavedItem item(shape, number, rows, columns);
    for (int first = 0; first < shape.span; first += interleaved_columns, ++pass) {
      const int warpgroup = pass % interleaved_warpgroups;
      int flags = control.filter_flags;
#pragma unroll 1
      for (int share = 0; share < interleaved_columns; share += interleaved_columns / columns) {
        // Where the lane's outputs of the first filter go, and the rows of y from there on.
        Stored* to[chunks];
        int left[chunks];
        const int of_share = share + lane / columns;
#pragma unroll
        for (int j = 0; j < chunks; ++j) {
          const InterleavedPlace place(shape, item, first + of_share + j * (32 / columns), rows,
                                       columns, beside);
          left[j] = place.rows_left;
          to[j] = shape.y + (place.n * conv.y_step.n + filters.first_k * conv.y_step.c +
                             place.p * conv.y_step.h + place.q * conv.y_step.w);
        }
        control.staged[warpgroup][warp].wait(pass / interleaved_warpgroups & 1);
        const auto [exponent, tile_flags] = control.stage_of[warpgroup][warp];
        flags |= tile_flags | (scales_fit(control, exponent) ? 0 : met_range);
        const float* const from =
            shape.staged() + (warp * 16 + staged_row(beside)) * stage_pitch + of_share;
        const float undo = power_of_two(-exponent);
        constexpr int at_once = rows < 4 ? 4 / rows : 1;
#pragma unroll 1
        for (int filter = 0; filter < filters.count; filter += at_once) {
          float values[at_once][rows][chunks];
#pragma unroll
          for (int i = 0; i < at_once; ++i)
#pragma unroll
            for (int below = 0; below < rows; ++below)
#pragma unroll
              for (int j = 0; j < chunks; ++j) {
                const int row = filter * rows * columns + staged_row((i * rows + below) * columns);
                values[i][below][j] = from[row * stage_pitch + j * (32 / columns)];
              }
#pragma unroll
          for (int i = 0; i < at_once; ++i) {
            const int of_group = filters.first + filter + i;
            const float scale = control.filter_scales[of_group] * undo,
                        bias = control.filter_bias[of_group];
#pragma unroll
            for (int below = 0; below < rows; ++below)
#pragma unroll
              for (int j = 0; j < chunks; ++j) {
                const float value =
                    larger(fmaf(values[i][below][j], scale, bias), shape.epilogue.least);
                Stored* const at = to[j] + below * conv.y_step.h;
                if (below < left[j] && filter + i < filters.count) *at = convert<Stored>(value);
              }
#pragma unroll
            for (int j = 0; j < chunks; ++j) to[j] += conv.y_step.c;
          }
        }
      }
      control.granted[(pass + 1) % interleaved_warpgroups][warp].arrive();
      if (flags == 0) continue;
      __syncwarp();
      sum_again<rows, columns>(shape, item, first, filters, (flags & met_range) != 0);
    }
  }
}

}  // namespace plumb::cuda
