// What the kernels are told, which share of the work a block has, and where rows and columns of the
// product lie in a stage.
#pragma once

#include "cuda_kernels/few_weights/few_weights.hpp"
#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda::few_weights {

struct Params {
  FewWeightsPlan plan;
  Divisor<int> z, row_planes, taps_d, block_c, phases, box_n;
  Divisor<int> blocks_k, blocks_c, blocks_l, groups;
  int x_vector = 1, dy_vector = 1;     ///< elements that are copied at once
  Divisor<int> x_vectors, dy_vectors;  ///< of a row
  Divisor<int> x_lanes, dy_lanes;      ///< threads that copy a plane
};

/// What a block sums: filters, channels and columns of a group, and the units.
struct BlockShare {
  int group, k, c, column;
  std::int64_t part, begin, end;

  __device__ BlockShare(const Params& params, unsigned index) {
    const FewWeightsCut& cut = params.plan.cut;
    const auto [above_l, l] = params.blocks_l.divide(static_cast<int>(index));
    const auto [above_c, of_c] = params.blocks_c.divide(above_l);
    const auto [above_k, of_k] = params.blocks_k.divide(above_c);
    const auto [of_part, g] = params.groups.divide(above_k);
    group = g, k = of_k * cut.block_k, c = of_c * cut.block_c, column = l * cut.block_columns;
    part = of_part;
    begin = cut.units * part / cut.parts, end = cut.units * (part + 1) / cut.parts;
  }
};

/// One unit: its first image, row b and column q. Units follow each other without a division.
struct Unit {
  std::int64_t image, b, q;

  __device__ Unit(const FewWeightsCut& cut, std::int64_t number) {
    const std::int64_t band = number / cut.columns;
    image = band / cut.bands * cut.box_n;
    b = band % cut.bands * cut.box_p;
    q = number % cut.columns * cut.box_q;
  }
  __device__ void advance(const WeightsSizes& sizes, const FewWeightsCut& cut) {
    q += cut.box_q;
    if (q < sizes.w.outputs) return;
    q = 0, b += cut.box_p;
    if (b < sizes.h.outputs + (cut.outer - 1) * cut.shift) return;
    b = 0, image += cut.box_n;
  }
};

/// A row of the product: a filter of the block, and which of its rows of taps.
struct Row {
  int k, j;
  bool valid;

  __device__ Row(const FewWeightsCut& cut, int number) {
    k = number / cut.outer, j = number - k * cut.outer;
    valid = k < cut.block_k;
  }
  /// Of the stage's first element of a filter's gradients, under the block's first row b.
  __device__ int offset(const FewWeightsCut& cut) const {
    return valid ? k * cut.dy_filter + (cut.outer - 1 - j) * cut.shift * cut.pitch : 0;
  }
};

/// A column of the block.
struct Column : FewWeightsColumn {
  bool valid;

  __device__ Column(const Params& params, const BlockShare& share, int of_block)
      : FewWeightsColumn(params.plan.sizes, params.plan.cut, share.column + of_block) {
    const FewWeightsCut& cut = params.plan.cut;
    valid = of_block < cut.block_columns && c < cut.block_c;
  }
  __device__ int offset(const Params& params) const {
    return valid ? FewWeightsColumn::offset(params.plan.sizes, params.plan.cut) : 0;
  }
};

}  // namespace plumb::cuda::few_weights
