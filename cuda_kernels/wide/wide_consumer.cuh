// Two consumer warpgroups multiply stage after stage (PTX wgmma, both operands in shared memory).
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// A warpgroup's sums of a tile: m64 tiles below each other, each as wgmma.cuh's D.
template <WideShape shape>
struct WideSums {
  static constexpr int m64_tiles = shape.warpgroup_rows() / 64;
  static constexpr int n8_tiles = shape.warpgroup_columns() / 8;
  float of[m64_tiles][4 * n8_tiles];

  __device__ void settle() {
#pragma unroll
    for (auto& tile : of) wgmma_settle(tile);
  }
};

/// Which of the block's consumer warpgroups this is, the same for the compiler too.
__device__ inline int consumer_warpgroup() {
  return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
}

/// Sums the steps of a tile. A stage is released when the next one's products are under way.
template <class Stored, WideShape shape>
__device__ void multiply_stages(const WideShared<shape>& shared, WideStage<shape>& stage,
                                const WideWorkItem& work, WideSums<shape>& sums) {
  using Sums = WideSums<shape>;
  constexpr int instruction_bytes = 32, m64_bytes = 64 * swizzle_row_bytes;
  const int warpgroup = consumer_warpgroup();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool below = shape.across == 1;
  const WgmmaMatrix a_first = wgmma_swizzled_matrix(shared.pixels(0)) +
                              (below ? warpgroup * Sums::m64_tiles * m64_bytes / 16 : 0);
  const WgmmaMatrix b_first =
      wgmma_swizzled_matrix(shared.filters(0)) +
      (below ? 0 : warpgroup * shape.warpgroup_columns() * swizzle_row_bytes / 16);
  const auto release = [&](int number) {
    if constexpr (shape.cluster == 1) {
      if (lane == 0) shared.empty(number).arrive();
    } else {
      if (lane < shape.cluster) shared.empty(number).arrive_at(lane);
    }
  };
  int last = 0;
#pragma unroll 1
  for (int step = work.begin; step < work.end; ++step) {
    shared.full(stage.number).wait(stage.parity);
    const WgmmaMatrix at = stage.number * (shape.stage_bytes() / 16);
    sums.settle();
    wgmma_begin();
#pragma unroll
    for (int bytes = 0; bytes < swizzle_row_bytes; bytes += instruction_bytes)
#pragma unroll
      for (int i = 0; i < Sums::m64_tiles; ++i)
        wgmma_swizzled<Stored, Sums::n8_tiles>(
            sums.of[i], a_first + at + (i * m64_bytes + bytes) / 16, b_first + at + bytes / 16,
            bytes > 0 || step > work.begin);
    wgmma_commit();
    wgmma_end<1>();
    if (step > work.begin) release(last);
    last = stage.number;
    stage.advance();
  }
  wgmma_end();
  sums.settle();
  release(last);
}

}  // namespace plumb::cuda
