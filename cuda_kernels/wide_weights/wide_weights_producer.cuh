// The producer, one warp, fills stages through the copy engine: a step's pixels of blocks of
// filters and of channels under their taps.
#pragma once

#include "cuda_kernels/wide_weights/wide_weights_params.cuh"

namespace plumb::cuda {

/// The first pixel of a step, as both maps' boxes have it: w, h, d. Of planes as they lie it is
/// that of an image's row of pixels, of_dy[0] of both.
template <class Arithmetic>
struct WideWeightsCorner {
  int number;  ///< of all pixels
  int n, of_dy[3], of_x[3];

  __device__ WideWeightsCorner(const WideWeightsParams& params, int step)
      : number(step * weights_block<Arithmetic>) {
    if constexpr (Arithmetic::across) {
      const auto [image, in_image] = params.image_steps.divide(step);
      n = image, of_dy[0] = in_image * weights_block<Arithmetic>;
      return;
    }
    const auto [above, q] = params.axis[0].outputs.divide(number);
    const auto [planes, p] = params.axis[1].outputs.divide(above);
    const auto [image, z] = params.axis[2].outputs.divide(planes);
    n = image, of_dy[0] = q, of_dy[1] = p, of_dy[2] = z;
#pragma unroll
    for (int i = 0; i < 3; ++i) of_x[i] = of_dy[i] * params.axis[i].stride - params.axis[i].before;
  }
};

/// A copy of every step of a tile, which a lane of the producer's warp begins: a block of filters
/// of dy, or of channels of x under a tap. Blocks of filters come first, and then those of columns.
template <class Arithmetic, WideShape shape, WideWeightsFault fault>
struct WideWeightsCopy {
  static constexpr int of_block = weights_block<Arithmetic>;
  static constexpr int m_blocks = shape.m / of_block, n_blocks = shape.n / of_block;
  static_assert(m_blocks + n_blocks <= 32);
  bool is_there, of_x;
  int channel, offset[3] = {0, 0, 0};
  int block;             ///< of the stage
  int filters, columns;  ///< copies of this tile

  __device__ WideWeightsCopy(const WideWeightsParams& params, const WideWeightsWork& work)
      : block(static_cast<int>(threadIdx.x) % 32),
        filters(min(m_blocks, params.filter_blocks - work.filter_block)),
        columns(work.column_end - work.column_block) {
    of_x = block >= m_blocks;
    const int number = of_x ? block - m_blocks : block;
    is_there = number < (of_x ? columns : filters);
    if (!of_x) {
      channel = work.group * params.dy.group_channels + (work.filter_block + number) * of_block;
      return;
    }
    const int column = work.column_block + number;
    int tap = column / params.channel_blocks;
    const WideWeightsAxis &w = params.axis[0], &h = params.axis[1], &d = params.axis[2];
    if (fault == WideWeightsFault::wrong_tap && number == 0)
      tap ^= tap + 1 < w.taps * h.taps * d.taps ? 1 : 0;
    channel = work.group * params.x.group_channels + column % params.channel_blocks * of_block;
    offset[0] = tap % w.taps * w.dilation, tap /= w.taps;
    offset[1] = tap % h.taps * h.dilation, offset[2] = tap / h.taps * d.dilation;
  }

  /// Begins this lane's copy of a step. `low` says whether it takes low halves.
  __device__ void begin(const WideWeightsParams& params, const WideShared<shape>& shared, int stage,
                        const WideWeightsCorner<Arithmetic>& corner, bool low) const {
    char* const to = shared.pixels(stage) + block * weights_block_bytes<Arithmetic>;
    if constexpr (Arithmetic::across) {
      // In these maps pixels lie innermost, and channels are what a copy goes along.
      const int at[3] = {channel}, none[3] = {};
      shared.full(stage).copy_im2col(to, of_x ? params.x_map : params.dy_map, 1, corner.of_dy[0],
                                     at, corner.n, none);
      return;
    }
    const int c = channel + (low ? (of_x ? params.x : params.dy).low_channels : 0);
    if ((of_x ? params.x : params.dy).has_rows)
      shared.full(stage).copy_tiled(to, of_x ? params.x_map : params.dy_map,
                                    {c, corner.number, 0, 0, 0});
    else if (of_x)
      shared.full(stage).copy_im2col(to, params.x_map, params.x.axes, c, corner.of_x, corner.n,
                                     offset);
    else
      shared.full(stage).copy_im2col(to, params.dy_map, params.dy.axes, c, corner.of_dy, corner.n,
                                     {0, 0, 0});
  }
};

/// Which halves a product of three takes; small products come first.
template <WideWeightsFault fault>
__device__ bool takes_low(bool of_x, int product) {
  if (of_x) return product == 1;
  return product == 0 || (fault == WideWeightsFault::low_twice && product == 1);
}

/// Fills the stages of all tiles. A warp calls it.
template <class Arithmetic, WideShape shape, WideWeightsFault fault>
__device__ void produce_weights(const WideWeightsParams& params, const WideShared<shape>& shared) {
  // Blocks of columns follow those of filters in a stage.
  static_assert(shape.a_bytes() ==
                shape.m / weights_block<Arithmetic> * weights_block_bytes<Arithmetic>);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  WideStage<shape> stage;
  for_each_weights_work<Arithmetic, shape>(params, [&](const WideWeightsWork& work) {
    const WideWeightsCopy<Arithmetic, shape, fault> copy(params, work);
#pragma unroll 1
    for (int product = 0; product < Arithmetic::rounds; ++product) {
      const bool low = Arithmetic::splits_in_memory && takes_low<fault>(copy.of_x, product);
#pragma unroll 1
      for (int step = work.begin; step < work.end; ++step) {
        const bool stale = fault == WideWeightsFault::stale_stage && step + 1 == work.end;
        const WideWeightsCorner<Arithmetic> corner(params, step);
        shared.empty(stage.number).wait(stage.parity ^ 1);
        if (lane == 0)
          shared.full(stage.number)
              .arrive_expecting((copy.filters + (stale ? 0 : copy.columns)) *
                                weights_block_bytes<Arithmetic>);
        __syncwarp();
        if (copy.is_there && !(stale && copy.of_x))
          copy.begin(params, shared, stage.number, corner, low);
        stage.advance();
      }
    }
  });
}

}  // namespace plumb::cuda
