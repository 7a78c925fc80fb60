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

/// Of a pass, the outputs of a lane: of so many places, in the rows that each has left, `to` those
/// of the warp's first filter. `from` is where the first of them is staged.
template <int rows, int columns, int chunks, class Shape>
__device__ void write_places(const Shape& shape, const InterleavedControl& control,
                             const WarpFilters& filters, const float* from, float undo,
                             typename Shape::Stored* (&to)[chunks], const int (&left)[chunks]) {
  using Stored = typename Shape::Stored;
  const auto& step = shape.conv.y_step;
  // Rows of a filter, and filters, that are on their way from the stage at once.
  constexpr int rows_at_once = rows < 4 ? rows : 4, at_once = 4 / rows_at_once;
#pragma unroll 1
  for (int filter = 0; filter < filters.count; filter += at_once) {
    float scales[at_once], biases[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int of_group = filters.first + filter + i;
      scales[i] = control.filter_scales[of_group] * undo;
      biases[i] = control.filter_bias[of_group];
    }
#pragma unroll
    for (int top = 0; top < rows; top += rows_at_once) {
      float values[at_once][rows_at_once][chunks];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int below = 0; below < rows_at_once; ++below)
#pragma unroll
          for (int j = 0; j < chunks; ++j) {
            const int row =
                filter * rows * columns + staged_row((i * rows + top + below) * columns);
            values[i][below][j] = from[row * stage_pitch + j * (32 / columns)];
          }
      // Else the compiler reads some of them between stores, and each is waited for.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int below = 0; below < rows_at_once; ++below)
#pragma unroll
          for (int j = 0; j < chunks; ++j) {
            const float value =
                larger(fmaf(values[i][below][j], scales[i], biases[i]), shape.epilogue.least);
            Stored* const at = to[j] + i * step.c + (top + below) * step.h;
            if (top + below < left[j] && filter + i < filters.count) *at = convert<Stored>(value);
          }
    }
#pragma unroll
    for (int j = 0; j < chunks; ++j) to[j] += at_once * step.c;
  }
}

/// Writes what is staged to y, pass after pass: each warp the rows that one of a warpgroup's made,
/// its lanes neighbours in a row of y.
template <int rows, int columns, class Shape>
__device__ void write(const Shape& shape, InterleavedControl& control) {
  const auto& step = shape.conv.y_step;
  const InterleavedTeam team(shape);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32, beside = lane % columns;
  const WarpFilters filters(shape, team, warp, 16 / (rows * columns));
  int pass = 0;
  for (int number = team.first; number < shape.items; number += team.members) {
    const InterleavedItem item(shape, number, rows, columns);
    for (int first = 0; first < shape.span; first += interleaved_columns, ++pass) {
      const int warpgroup = pass % interleaved_warpgroups;
      int flags = control.filter_flags;
#pragma unroll 1
      for (int share = 0; share < interleaved_columns; share += interleaved_columns / columns) {
        constexpr int chunks = interleaved_columns / 32;
        typename Shape::Stored* to[chunks];
        int left[chunks];
        const int of_share = share + lane / columns;
#pragma unroll
        for (int j = 0; j < chunks; ++j) {
          const InterleavedPlace place(shape, item, first + of_share + j * (32 / columns), rows,
                                       columns, beside);
          left[j] = place.rows_left;
          to[j] = shape.y + (place.n * step.n + filters.first_k * step.c + place.p * step.h +
                             place.q * step.w);
        }
        control.staged[warpgroup][warp].wait(pass / interleaved_warpgroups & 1);
        const auto [exponent, tile_flags] = control.stage_of[warpgroup][warp];
        flags |= tile_flags | (scales_fit(control, exponent) ? 0 : met_range);
        const float* const from =
            shape.staged() + (warp * 16 + staged_row(beside)) * stage_pitch + of_share;
        write_places<rows, columns>(shape, control, filters, from, power_of_two(-exponent), to,
                                    left);
      }
      control.granted[(pass + 1) % interleaved_warpgroups][warp].arrive();
      if (flags == 0) continue;
      __syncwarp();
      sum_again<rows, columns>(shape, item, first, filters, (flags & met_range) != 0);
    }
  }
}

}  // namespace plumb::cuda
