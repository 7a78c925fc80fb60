// What the kernels of backward weights are told, and which share of the work a block has.
#pragma once

#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/weights/weights.hpp"

namespace plumb::cuda::weights {

struct WeightsParams {
  WeightsPlan plan;
  Divisor<int> z, rows, taps_d, taps_h, block_c, box_p, box_n, phases, channel_lines, pieces;
  Divisor<int> blocks_k, blocks_c, blocks_l, groups, chunks;
  int lanes_x_bits = 5, lanes_y_bits = 5;  ///< of threads that copy a row
  int vector = 1;                          ///< elements of dy that are copied at once
  bool joined = false;                     ///< the rows of a unit's gradients follow each other
};

/// What a block sums: filters and channels of a group, the first of its lines in a channel, and the
/// units.
struct BlockShare {
  int group, k, c, line;
  std::int64_t part, begin, end;

  __device__ BlockShare(const WeightsParams& params, unsigned index) {
    const WeightsCut& cut = params.plan.cut;
    const auto [above_l, l] = params.blocks_l.divide(static_cast<int>(index));
    const auto [above_c, of_c] = params.blocks_c.divide(above_l);
    const auto [above_k, of_k] = params.blocks_k.divide(above_c);
    const auto [of_part, g] = params.groups.divide(above_k);
    group = g, k = of_k * cut.block_k, c = of_c * cut.block_c, line = l * cut.channel_lines;
    part = of_part;
    begin = cut.units * part / cut.parts, end = cut.units * (part + 1) / cut.parts;
  }
};

/// One unit: its first image, row and column. Units follow each other without a division.
struct Unit {
  std::int64_t image, p, q;

  __device__ Unit(const WeightsCut& cut, std::int64_t number) {
    const std::int64_t band = number / cut.columns;
    image = band / cut.bands * cut.box_n;
    p = band % cut.bands * cut.box_p;
    q = number % cut.columns * cut.box_q;
  }
  __device__ void advance(const WeightsSizes& sizes, const WeightsCut& cut) {
    q += cut.box_q;
    if (q < sizes.w.outputs) return;
    q = 0, p += cut.box_p;
    if (p < sizes.h.outputs) return;
    p = 0, image += cut.box_n;
  }
};

/// Where a line lies: its channel in the block and in the filter, and its first tap. Taps of a line
/// are a stride apart where they are neighbours in shared memory.
struct Line {
  int c, t, r, s, plane, shift;
  bool valid;

  __device__ Line(const WeightsParams& params, const BlockShare& share, int index) {
    const WeightsSizes& sizes = params.plan.sizes;
    const auto [channel, of_channel] = params.channel_lines.divide(index);
    const auto [row, piece] = params.pieces.divide(share.line + of_channel);
    c = channel;
    t = params.taps_h.quotient(row);
    r = row - t * sizes.h.taps;
    if (sizes.neighbours) {
      plane = piece % sizes.planes;
      shift = piece / sizes.planes * params.plan.cut.tile.taps;
      s = plane + sizes.w.stride * shift;
    } else {
      s = piece;
      plane = s * sizes.w.dilation % sizes.w.stride;
      shift = s * sizes.w.dilation / sizes.w.stride;
    }
    valid = channel < params.plan.cut.block_c && share.c + channel < sizes.group_c &&
            t < sizes.d.taps && s < sizes.w.taps;
  }
  /// Of the line's first tap under the first output of an image, in elements of the stage.
  __device__ int offset(const WeightsParams& params) const {
    const WeightsCut& cut = params.plan.cut;
    if (!valid) return 0;
    const int row =
        (c * params.plan.sizes.d.taps + t) * cut.rows + r * params.plan.sizes.h.dilation;
    return row * cut.row_pitch + plane * cut.plane_pitch + shift;
  }
};

}  // namespace plumb::cuda::weights
