// The epilogue warps apply scale, bias and activation to interleaved.cu's sums, and store them to
// y.
#pragma once

#include "cuda_kernels/conv/two_outputs.cuh"
#include "cuda_kernels/few_channels/window_filters.cuh"
#include "cuda_kernels/interleaved/interleaved_again.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda {

/// The filters of a warp's rows of a product are every fourth of the group (product_filter()).
/// Where there are copies of filters these are one copy of each.
struct WarpFilters {
  static constexpr int in_group = interleaved_epilogue_warps;  ///< from one to the next
  int first, count;  ///< the first of them in the group, and how many there are
  int first_k;

  template <class Params>
  __device__ WarpFilters(const Params& params, const InterleavedTeam& team, int warp, int filters)
      : first(warp), first_k(team.number * params.different_filters + warp * params.warp_filters) {
    count = min((params.conv.k.value() - first_k + params.warp_apart - 1) >> params.warp_apart_bits,
                filters);
  }
};

/// Sums outputs of a warp's rows and a pass again as the definition says: all of them, or those
/// that are NaN.
template <int rows, int columns, class Params>
__device__ void sum_again(const Params& params, const InterleavedItem& item, int first,
                          const WarpFilters& filters, bool all) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * interleaved_columns; i += 32) {
    const int row = i / interleaved_columns, filter = row / (rows * columns),
              below = row / columns % rows;
    const OutputPosition at(params, item, first + i % interleaved_columns, rows, columns,
                            filters.first * params.warp_columns + row % columns);
    if (below >= at.rows_left || filter >= filters.count) continue;
    sum_output_again(params, at.n, filters.first_k + filter * params.warp_apart, at.p + below, at.q,
                     all);
  }
}

/// What was met of a pass's operands, WindowFlags. Above them `packed_flags` has by how many powers
/// of two the scale of the sums is finer than that of a chunk of their channels.
__device__ inline int sum_flags(const InterleavedControl& control, int exponent, int packed_flags) {
  constexpr int met = (1 << met_bits) - 1;
  return control.filter_flags | (packed_flags & met) |
         (scales_fit(control, exponent) ? 0 : met_range);
}

/// Makes NaN, which is summed again, of what a warp has of staged sums that are too small for
/// operands that were met: `rows` rows, and so many positions from `first` on. What was dropped
/// under a coarser scale has grown with the sums.
template <int rows, int positions, class Params>
__device__ void spoil_small(const Params& params, int first_row, int first, int packed_flags) {
  using Scheme = typename Params::Scheme;
  if constexpr (Scheme::scaled) {
    const ConvShape<int>& conv = params.conv;
    const int terms = conv.group_c * conv.r.value() * conv.s.value();
    constexpr int products = Scheme::elements.parts == 2 ? 3 : 1;
    const float least = least_sum_of_small<products> * static_cast<float>(terms) *
                        power_of_two(packed_flags >> met_bits);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % 32; i < rows * positions; i += 32) {
      float& sum =
          params.staged()[(first_row + i / positions) * stage_pitch + first + i % positions];
      if (fabsf(sum) < least) sum = quiet_nan;
    }
    __syncwarp();
  }
}

/// Reads one sum of a row from the stage, or two neighbours, which are two positions or, where
/// there are two columns, two rows.
template <int columns, int count>
__device__ void read_staged(const float* from, int row, float* values) {
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

/// A warp's lanes share the positions of a pass: each has one output or two neighbours of a row at
/// a time, and the lanes' outputs are neighbours in that row too.
template <int columns, bool paired>
struct EpilogueLanes {
  static constexpr int of_lane = paired ? 2 : 1;  ///< outputs of a lane at a time
  static constexpr int positions = 32 * of_lane / columns;
  static constexpr int chunks = interleaved_columns / positions < 4
                                    ? interleaved_columns / positions
                                    : 4;  ///< chunks of positions at once
  static constexpr int share = chunks * positions;
};

/// So many rows of a filter, and filters, have outputs on their way from the stage at once.
template <int of_rows, class Lanes>
struct EpilogueBatch {
  static constexpr int all = 16 / (Lanes::chunks * Lanes::of_lane);
  static constexpr int rows = Lanes::of_lane == 1 || of_rows < all ? of_rows : all;
  /// Outputs of two rows are stored for two filters at once: one filter at a time took 4 % more
  /// time in ScaledCoreRows (13 of few200, one H200).
  static constexpr int filters = of_rows < all ? all / of_rows : of_rows == 2 ? 2 : 1;
};

/// Writes a lane's outputs of a filter's row, `offset` behind `to`, at positions that have more
/// than `row` rows left. (A filter's offset and a row's, added one after the other, would make each
/// output a branch.)
template <class Lanes, class Stored, class Least>
__device__ void write_row(const float (&sums)[Lanes::chunks * Lanes::of_lane], float scale,
                          float bias, Least least, Stored* const (&to)[Lanes::chunks], int offset,
                          const int (&left)[Lanes::chunks], int row, bool exists) {
#pragma unroll
  for (int i = 0; i < Lanes::chunks * Lanes::of_lane; i += 2) {
    const TwoOutputs<Stored> two(fmaf(sums[i], scale, bias), fmaf(sums[i + 1], scale, bias), least);
#pragma unroll
    for (int j = 0; j < 2 / Lanes::of_lane; ++j) {
      const int chunk = i / Lanes::of_lane + j;
      Stored* const at = to[chunk] + offset;
      if (row >= left[chunk] || !exists) continue;
      if (Lanes::of_lane == 2)
        two.write(at);
      else if (j == 0)
        two.write_first(at);
      else
        two.write_second(at);
    }
  }
}

/// Stores a lane's outputs of a pass in some chunks of positions, in the rows that each has left.
/// `to` are the places of the warp's first filter, and `from` is where the first of its outputs is
/// staged.
template <int rows, int columns, class Lanes, class Params>
__device__ void store_positions(const Params& params, const InterleavedControl& control,
                                const WarpFilters& filters, const float* from, float undo,
                                typename Params::Stored* (&to)[Lanes::chunks],
                                const int (&left)[Lanes::chunks]) {
  using Batch = EpilogueBatch<rows, Lanes>;
  constexpr int chunks = Lanes::chunks, of_lane = Lanes::of_lane;
  const auto& step = params.conv.y_step;
  const int filter_step = params.warp_apart * step.c;
  const auto least = TwoOutputs<typename Params::Stored>::least(params.epilogue.least);
  const auto write_batch = [&]<bool all_exist>(int filter) {
    float scales[Batch::filters], biases[Batch::filters];
#pragma unroll
    for (int i = 0; i < Batch::filters; ++i) {
      const int of_group = filters.first + (filter + i) * WarpFilters::in_group;
      scales[i] = control.filter_scales[of_group] * undo;
      biases[i] = control.filter_bias[of_group];
    }
    const float* const of_filter = from + filter * rows * columns * stage_pitch;
#pragma unroll
    for (int top = 0; top < rows; top += Batch::rows) {
      float sums[Batch::filters][Batch::rows][chunks * of_lane];
#pragma unroll
      for (int i = 0; i < Batch::filters; ++i)
#pragma unroll
        for (int below = 0; below < Batch::rows; ++below)
#pragma unroll
          for (int j = 0; j < chunks; ++j)
            read_staged<columns, of_lane>(of_filter + j * Lanes::positions,
                                          (i * rows + top + below) * columns,
                                          sums[i][below] + j * of_lane);
#pragma unroll
      for (int i = 0; i < Batch::filters; ++i)
#pragma unroll
        for (int below = 0; below < Batch::rows; ++below)
          write_row<Lanes>(sums[i][below], scales[i], biases[i], least, to,
                           i * filter_step + (top + below) * step.h, left, top + below,
                           all_exist || filter + i < filters.count);
    }
#pragma unroll
    for (int j = 0; j < chunks; ++j) to[j] += Batch::filters * filter_step;
  };
  int filter = 0;
#pragma unroll 1
  for (; filter + Batch::filters <= filters.count; filter += Batch::filters)
    write_batch.template operator()<true>(filter);
  if (Batch::filters > 1 && filter < filters.count) write_batch.template operator()<false>(filter);
}

/// Writes what is staged to y, pass after pass; each warp writes the rows that one warp of a warp
/// group made.
template <int rows, int columns, bool paired, class Params>
__device__ void store_passes(const Params& params, InterleavedControl& control) {
  using Lanes = EpilogueLanes<columns, paired>;
  const auto& step = params.conv.y_step;
  const InterleavedTeam team(params);
  const int warp = static_cast<int>(threadIdx.x) / 32 % interleaved_epilogue_warps,
            output = static_cast<int>(threadIdx.x) % 32 * Lanes::of_lane,  // of a chunk
      beside = output % columns;
  const WarpFilters filters(params, team, warp, 16 / (rows * columns));
  int pass = 0;
  for (int number = team.first; number < params.items; number += team.members) {
    const InterleavedItem item(params, number, rows, columns);
    for (int first = 0; first < params.span; first += interleaved_columns, ++pass) {
      const int warpgroup = pass % interleaved_warpgroups;
      int flags = 0;
#pragma unroll 1
      for (int share = 0; share < interleaved_columns; share += Lanes::share) {
        typename Params::Stored* to[Lanes::chunks];
        int left[Lanes::chunks];
        const int of_share = share + output / columns;
#pragma unroll
        for (int j = 0; j < Lanes::chunks; ++j) {
          const OutputPosition at(params, item, first + of_share + j * Lanes::positions, rows,
                                  columns, warp * params.warp_columns + beside);
          left[j] = at.rows_left;
          to[j] =
              params.y + (at.n * step.n + filters.first_k * step.c + at.p * step.h + at.q * step.w);
        }
        control.output_full[warpgroup][warp].wait(pass / interleaved_warpgroups & 1);
        const auto [exponent, packed_flags] = control.stage_of[warpgroup][warp];
        flags |= sum_flags(control, exponent, packed_flags);
        if ((flags & met_small) != 0)
          spoil_small<16, Lanes::share>(params, warp * 16, share, packed_flags);
        const float* const from =
            params.staged() + (warp * 16 + staged_row(beside)) * stage_pitch + of_share;
        store_positions<rows, columns, Lanes>(params, control, filters, from,
                                              power_of_two(-exponent), to, left);
      }
      control.output_empty[(pass + 1) % interleaved_warpgroups][warp].arrive();
      if (flags == 0) continue;
      __syncwarp();
      sum_again<rows, columns>(params, item, first, filters, (flags & met_range) != 0);
    }
  }
}

/// Writes what is staged, in pairs where outputs are aligned so.
template <int rows, int columns, class Params>
__device__ void run_epilogue(const Params& params, InterleavedControl& control) {
  if (params.pairs)
    store_passes<rows, columns, true>(params, control);
  else
    store_passes<rows, columns, false>(params, control);
}

}  // namespace plumb::cuda
