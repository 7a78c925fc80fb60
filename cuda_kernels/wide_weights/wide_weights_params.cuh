// A gradient as the kernel's warps see it, and a block's share of the work.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/tensor_copy.cuh"
#include "cuda_kernels/wide/wide_params.cuh"
#include "cuda_kernels/wide_weights/wide_weights_dw.cuh"

namespace plumb::cuda {

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class WideWeightsFault {
  none,
  lost_split,    ///< the last split is not added
  wrong_tap,     ///< the first column of a tile has the channels of the tap beside it
  stale_stage,   ///< the last step of a tile takes the channels that its stage had before
  wrong_stride,  ///< descriptors have the second 64 filters or channels half as far behind
  low_twice,     ///< the second of three products takes dy's low halves as the first does
  lost_doubt,    ///< what may be wrong is not looked at again
  // Of operands that go through registers:
  stale_fragment,  ///< a step's first pixels are those of the stage before
  lost_low,        ///< low halves of dy are zeros
  swapped_pixels,  ///< of a slice of dy the first four pixels are its last ones
};

using WideFp16Scaled = WideArithmetic<float, __half, 1>;
using WideTf32Across = WideArithmetic<float, float, 1, true>;
using WideTf32x3Across = WideArithmetic<float, float, 3, true>;

/// Filters or channels that a copy has, as many as a step has pixels, and their bytes.
template <class Arithmetic>
inline constexpr int weights_block = Arithmetic::step_channels;
template <class Arithmetic>
inline constexpr int weights_block_bytes = weights_block<Arithmetic>* swizzle_row_bytes;

struct WideWeightsAxis {
  int stride, before, dilation, taps;
  Divisor<int> outputs;
};

/// A tensor in the copy engine's map: channels of a group, and those of low halves, from the first
/// on. `scale` is a word of WideScale.
struct WideWeightsTensor {
  int axes, group_channels, low_channels;
  bool has_rows;  ///< the map's, of pixels (im2col_rows.hpp)
  const int* scale;
};

/// Where a tile's sums are rounded and stored as they are, if dw has vectors of 16 bytes, no group
/// is joined and no axis folded.
struct WeightsDirect {
  void* dw;      ///< null where sums go to workspace
  int* doubted;  ///< a number for each consumer warp of each work, not 0 where a sum may be wrong;
                 ///< or null
  WeightsPlaces places;
};

struct WideWeightsParams {
  CUtensorMap x_map, dy_map;
  WideWeightsTensor x, dy;
  float* sums;      ///< splits × groups × rows × columns
  float least_sum;  ///< smaller ones of small operands are made anew (WideScale)
  WeightsDirect direct;
  WideWeightsAxis axis[3];
  int filters, rows, columns;  ///< of a group; rows and columns are whole blocks
  int filter_blocks, channel_blocks;
  WeightsColumns tile_columns;
  int groups, steps, splits, works;
  Divisor<int> m_tiles, n_tiles, of_groups;
  Divisor<int> image_steps;  ///< across: those of an image, whose steps are its own
};

/// A tile of a block: a group's filters from a block on, columns from a block to another, and a
/// split's steps.
struct WideWeightsWork {
  int number, group, filter_block, column_block, column_end, split, begin, end;
};

/// Calls `f` for each of the block's tiles. Splits are slowest, so that the tiles under way at one
/// time share pixels.
template <class Arithmetic, WideShape shape, class F>
__device__ void for_each_weights_work(const WideWeightsParams& params, const F& f) {
#pragma unroll 1
  for (int work = static_cast<int>(blockIdx.x); work < params.works;
       work += static_cast<int>(gridDim.x)) {
    const auto [above_n, n_tile] = params.n_tiles.divide(work);
    const auto [above_m, m_tile] = params.m_tiles.divide(above_n);
    const auto [split, group] = params.of_groups.divide(above_m);
    f(WideWeightsWork{.number = work,
                      .group = group,
                      .filter_block = m_tile * (shape.m / weights_block<Arithmetic>),
                      .column_block = params.tile_columns.first(n_tile),
                      .column_end = params.tile_columns.first(n_tile + 1),
                      .split = split,
                      .begin = first_pixel_step(split, params.splits, params.steps),
                      .end = first_pixel_step(split + 1, params.splits, params.steps)});
  }
}

}  // namespace plumb::cuda
