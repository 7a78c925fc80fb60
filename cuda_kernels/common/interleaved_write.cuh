// What becomes of interleaved.cu's sums: scale, bias and activation, and their way to y.
#pragma once

#include "cuda_kernels/common/direct_sum.cuh"
#include "cuda_kernels/common/interleaved_shape.cuh"
#include "cuda_kernels/common/larger.cuh"
#include "cuda_kernels/common/window_filters.cuh"
#include "cuda_kernels/common/write_pair.cuh"

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

/// Reads sums from the stage: that of a row, or two of neighbours, which are two places or, of two
/// columns, two rows.
template <int columns, int count>
__device__ void read_staged(const float* from, int row, float (&values)[count]) {
  from += staged_row(row) * stage_pitch;
  if constexpr (count == 1) {
    values[0] = *from;
  } else if constexpr (columns == 2) {
    values[0] = *from, values[1] = from[staged_row(1) * stage_pitch];
  } else {
    const auto both = *reinterpret_cast<const float2*>(from);
    values[0] = both.x, values[1] = both.y;
  }
}

/// How a warp's lanes share the places of a pass: each has one output or two neighbours of a row at
/// a time, and the warp's are neighbours in it too.
template <int columns, bool paired>
struct WriterLanes {
  static constexpr int of_lane = paired ? 2 : 1;  ///< outputs
  static constexpr int places = 32 * of_lane / columns;
  static constexpr int chunks =
      interleaved_columns / places < 4 ? interleaved_columns / places : 4;  ///< of places, at once
  static constexpr int share = chunks * places;
};

/// Of a pass, a lane's outputs in some chunks of places, in the rows that each has left; `to` are
/// those of the warp's first filter. `from` is where the first of them is staged.
template <int rows, int columns, class Lanes, class Shape>
__device__ void write_places(const Shape& shape, const InterleavedControl& control,
                             const WarpFilters& filters, const float* from, float undo,
                             typename Shape::Stored* (&to)[Lanes::chunks],
                             const int (&left)[Lanes::chunks]) {
  using Stored = typename Shape::Stored;
  constexpr int chunks = Lanes::chunks, of_lane = Lanes::of_lane;
  const auto& step = shape.conv.y_step;
  // Rows of a filter, and filters, that are on their way from the stage at once.
  constexpr int all_at_once = 16 / (chunks * of_lane),
                rows_at_once = rows < all_at_once ? rows : all_at_once,
                at_once = all_at_once / rows_at_once;
#pragma unroll 1
  for (int filter = 0; filter < filters.count; filter += at_once) {
    float scales[at_once], biases[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int of_group = filters.first + filter + i;
      scales[i] = control.filter_scales[of_group] * undo;
      biases[i] = control.filter_bias[of_group];
    }
    const float* const of_filter = from + filter * rows * columns * stage_pitch;
#pragma unroll
    for (int top = 0; top < rows; top += rows_at_once) {
      float values[at_once][rows_at_once][chunks][of_lane];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int below = 0; below < rows_at_once; ++below) {
          const int row = (i * rows + top + below) * columns;
#pragma unroll
          for (int j = 0; j < chunks; ++j)
            read_staged<columns>(of_filter + j * Lanes::places, row, values[i][below][j]);
        }
      // Else the compiler reads some of them between stores, and each is waited for.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int below = 0; below < rows_at_once; ++below)
#pragma unroll
          for (int j = 0; j < chunks; ++j) {
            float(&finished)[of_lane] = values[i][below][j];
#pragma unroll
            for (float& value : finished)
              value = larger(fmaf(value, scales[i], biases[i]), shape.epilogue.least);
            Stored* const at = to[j] + i * step.c + (top + below) * step.h;
            if (top + below >= left[j] || filter + i >= filters.count) continue;
            if constexpr (of_lane == 2)
              write_pair<false>(at, finished[0], finished[1]);
            else
              *at = convert<Stored>(finished[0]);
          }
    }
#pragma unroll
    for (int j = 0; j < chunks; ++j) to[j] += at_once * step.c;
  }
}

/// Writes what is staged to y, pass after pass: each warp the rows that one of a warpgroup's made.
template <int rows, int columns, bool paired, class Shape>
__device__ void write_passes(const Shape& shape, InterleavedControl& control) {
  using Lanes = WriterLanes<columns, paired>;
  const auto& step = shape.conv.y_step;
  const InterleavedTeam team(shape);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            output = static_cast<int>(threadIdx.x) % 32 * Lanes::of_lane,  // of a chunk
      beside = output % columns;
  const WarpFilters filters(shape, team, warp, 16 / (rows * columns));
  int pass = 0;
  for (int number = team.first; number < shape.items; number += team.members) {
    const InterleavedItem item(shape, number, rows, columns);
    for (int first = 0; first < shape.span; first += interleaved_columns, ++pass) {
      const int warpgroup = pass % interleaved_warpgroups;
      int flags = control.filter_flags;
#pragma unroll 1
      for (int share = 0; share < interleaved_columns; share += Lanes::share) {
        typename Shape::Stored* to[Lanes::chunks];
        int left[Lanes::chunks];
        const int of_share = share + output / columns;
#pragma unroll
        for (int j = 0; j < Lanes::chunks; ++j) {
          const InterleavedPlace place(shape, item, first + of_share + j * Lanes::places, rows,
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
        write_places<rows, columns, Lanes>(shape, control, filters, from, power_of_two(-exponent),
                                           to, left);
      }
      control.granted[(pass + 1) % interleaved_warpgroups][warp].arrive();
      if (flags == 0) continue;
      __syncwarp();
      sum_again<rows, columns>(shape, item, first, filters, (flags & met_range) != 0);
    }
  }
}

/// In pairs where outputs are aligned so.
template <int rows, int columns, class Shape>
__device__ void write(const Shape& shape, InterleavedControl& control) {
  if (shape.pairs)
    write_passes<rows, columns, true>(shape, control);
  else
    write_passes<rows, columns, false>(shape, control);
}

}  // namespace plumb::cuda
