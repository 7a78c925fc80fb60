// The epilogue where filters are innermost in y: lanes store vectors of 16 bytes, neighbouring
// filters of an output pixel, and a sector's two vectors together.
//
// Every fourth filter of a group is in the same sixteen rows of the stage (product_filter()), so
// that a vector takes outputs of all four consumer warps. The epilogue warps therefore share the
// positions of a pass instead of its filters: each has 32 positions, and all filters.
#pragma once

#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/two_outputs.cuh"
#include "cuda_kernels/few_channels/window_filters.cuh"
#include "cuda_kernels/interleaved/interleaved_params.cuh"

namespace plumb::cuda {

/// What a lane has in a step: vector `number` of a pixel, of its position's row of outputs `below`.
/// The fours of a vector's filters change places where `turned`.
struct PixelVector {
  int number, below;
  bool turned;
};

/// What the lanes of a warp read of the stage and store, where a filter has `rows` rows of outputs.
/// Four lanes share two neighbouring positions; so a warp has sixteen at a time, and in `steps`
/// steps all of their outputs.
template <class Stored, int rows>
struct PixelVectors {
  static constexpr int filters = vector_bytes / sizeof(Stored);
  static constexpr int vectors = interleaved_rows / rows / filters;  ///< of a pixel
  static constexpr int steps = interleaved_rows / filters / 4;
  static constexpr int positions = 16;
  static constexpr int chunks = interleaved_columns / interleaved_epilogue_warps / positions;
  static constexpr int fours = filters / 4;  ///< a four of filters has one of each warp's
  static_assert(vectors >= 2);

  /// Returns what a lane has in a step. Rows that half a warp reads at once meet no bank twice,
  /// those of four rows of outputs twice at most.
  __host__ __device__ static constexpr PixelVector vector(int step, int lane) {
    const int of_four = lane % 4, upper = of_four / 2;
    if (rows == 1) return {step * 4 + of_four, 0, fours == 2 && upper != 0};
    if (vectors == 2) return {of_four % 2, step * 2 + upper, false};
    return {step / rows * 4 + of_four, step % rows ^ upper,
            fours == 2 && rows == 2 && of_four % 2 != 0};
  }
  /// Returns which of a vector's fours of filters a lane has as its four number `four`.
  __host__ __device__ static constexpr int four_of(const PixelVector& vector, int four) {
    return vector.number * fours + (vector.turned ? fours - 1 - four : four);
  }
  /// Returns the row of the stage where that four begins. Each of the filters behind the first is
  /// 16 rows further on.
  __host__ __device__ static constexpr int staged(const PixelVector& vector, int four) {
    return staged_row(four_of(vector, four) * rows + vector.below);
  }
};

/// The outputs of two neighbouring positions in y: where those of the group's first filter begin,
/// and how many rows of them exist. The first position's number is even, and so is the pitch: both
/// are in one row.
struct PixelPair {
  int offset, rows_left[2];

  template <class Params>
  __device__ PixelPair(const Params& params, const InterleavedItem& item, int number, int rows,
                       int first_k) {
    const OutputPosition at(params, item, number, rows, 1, 0);
    const auto& step = params.conv.y_step;
    offset = at.n * step.n + first_k + at.p * step.h + at.q * step.w;
    const bool second = at.q + 1 < min(params.conv.q.value(), item.q + params.tile_columns);
    rows_left[0] = at.rows_left, rows_left[1] = second ? at.rows_left : 0;
  }
};

/// Puts two outputs into a vector in registers.
template <class Stored>
__device__ void put(const TwoOutputs<Stored>& two, Stored* to) {
  if constexpr (sizeof(Stored) < sizeof(float))
    two.write(to);
  else
    two.write_first(to), two.write_second(to + 1);
}

/// Stores a lane's vectors of two neighbouring positions, whose sums are staged from `from` on.
template <class Vectors, class Params>
__device__ void store_vectors(const Params& params, const InterleavedControl& control,
                              const float* from, const PixelVector& vector, float undo,
                              const PixelPair& pair) {
  using Stored = typename Params::Stored;
  constexpr int filters = Vectors::filters;
  const auto least = TwoOutputs<Stored>::least(params.epilogue.least);
  alignas(vector_bytes) Stored outputs[2][filters];
#pragma unroll
  for (int i = 0; i < filters; i += 2) {
    const float* const of_four = from + Vectors::staged(vector, i / 4) * stage_pitch;
    const int of_group = Vectors::four_of(vector, i / 4) * 4 + i % 4;
    float2 sums[2];
    float scale[2], bias[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      sums[j] = *reinterpret_cast<const float2*>(of_four + (i % 4 + j) * 16 * stage_pitch);
      scale[j] = Params::Scheme::scaled ? control.filter_scales[of_group + j] * undo : 1;
      bias[j] = control.filter_bias[of_group + j];
    }
    put<Stored>({fmaf(sums[0].x, scale[0], bias[0]), fmaf(sums[1].x, scale[1], bias[1]), least},
                outputs[0] + i);
    put<Stored>({fmaf(sums[0].y, scale[0], bias[0]), fmaf(sums[1].y, scale[1], bias[1]), least},
                outputs[1] + i);
  }
  const auto& step = params.conv.y_step;
  Stored* const to = params.y + (pair.offset + vector.number * filters + vector.below * step.h);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 of = *reinterpret_cast<const uint4*>(outputs[i]);
    const uint4 all = vector.turned ? uint4{of.z, of.w, of.x, of.y} : of;
    if (vector.below < pair.rows_left[i]) *reinterpret_cast<uint4*>(to + i * step.w) = all;
  }
}

/// Sums outputs that a warp has stored again as the definition says, as sum_again() does.
template <int rows, class Params>
__device__ void sum_pixels_again(const Params& params, const InterleavedItem& item, int first,
                                 int first_k, bool all) {
  constexpr int positions = interleaved_columns / interleaved_epilogue_warps;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < interleaved_rows * positions; i += 32) {
    const int row = i / positions, k = first_k + row / rows, below = row % rows;
    const OutputPosition at(params, item, first + i % positions, rows, 1, 0);
    if (below >= at.rows_left || k >= params.conv.k.value()) continue;
    sum_output_again(params, at.n, k, at.p + below, at.q, all);
  }
}

/// Writes what is staged to y, pass after pass.
template <int rows, class Params>
__device__ void store_pixels(const Params& params, InterleavedControl& control) {
  using Vectors = PixelVectors<typename Params::Stored, rows>;
  const InterleavedTeam team(params);
  const int warp = static_cast<int>(threadIdx.x) / 32 % interleaved_epilogue_warps,
            lane = static_cast<int>(threadIdx.x) % 32,
            of_warp = warp * (interleaved_columns / interleaved_epilogue_warps);
  const int first_k = team.number * params.different_filters;
  int pass = 0;
  for (int number = team.first; number < params.items; number += team.members) {
    const InterleavedItem item(params, number, rows, 1);
    for (int first = 0; first < params.span; first += interleaved_columns, ++pass) {
      const int warpgroup = pass % interleaved_warpgroups;
      for (Mbarrier& of_consumer : control.output_full[warpgroup])
        of_consumer.wait(pass / interleaved_warpgroups & 1);
      const auto [exponent, packed_flags] = control.stage_of[warpgroup][warp];
      const int flags = sum_flags(control, exponent, packed_flags);
      if ((flags & met_small) != 0)
        spoil_small<interleaved_rows, interleaved_columns / interleaved_epilogue_warps>(
            params, 0, of_warp, packed_flags);
#pragma unroll 1
      for (int chunk = 0; chunk < Vectors::chunks; ++chunk) {
        const int here = of_warp + chunk * Vectors::positions + lane / 4 * 2;
        const PixelPair pair(params, item, first + here, rows, first_k);
#pragma unroll
        for (int step = 0; step < Vectors::steps; ++step) {
          const PixelVector vector = Vectors::vector(step, lane);
          if (first_k + vector.number * Vectors::filters < params.conv.k.value())
            store_vectors<Vectors>(params, control, params.staged() + here, vector,
                                   power_of_two(-exponent), pair);
        }
      }
      // Each warp has read rows of all consumer warps.
      meet_threads<2>(interleaved_epilogue_warps * 32);
      control.output_empty[(pass + 1) % interleaved_warpgroups][warp].arrive();
      if (flags == 0) continue;
      __syncwarp();
      sum_pixels_again<rows>(params, item, first + of_warp, first_k, (flags & met_range) != 0);
    }
  }
}

}  // namespace plumb::cuda
