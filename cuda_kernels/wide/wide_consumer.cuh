// Two consumer warpgroups multiply stage after stage (PTX wgmma, both operands in shared memory).
#pragma once

#include <type_traits>

#include "cuda_kernels/primitives/split.hpp"
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
  __device__ void scale(float by) {
#pragma unroll
    for (auto& tile : of)
#pragma unroll
      for (float& sum : tile) sum *= by;
  }
};

/// Which of the block's consumer warpgroups this is, the same for the compiler too.
__device__ inline int consumer_warpgroup() {
  return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
}

/// The first pixel and filter of a tile that a warpgroup sums.
struct WideTileCorner {
  int pixel, filter;
};
template <WideShape shape>
__device__ WideTileCorner warpgroup_corner(const WideWorkItem& work, int warpgroup) {
  if (shape.across == 1) return {work.pixel + warpgroup * shape.warpgroup_rows(), work.filter};
  return {work.pixel, work.filter + warpgroup * shape.warpgroup_columns()};
}

/// How terms lie in a stage: along rows, which are pixels and filters, or across them, where a row
/// is a term and has pixels or filters side by side.
template <WgmmaTerms of_pixels, WgmmaTerms of_filters>
struct WideTerms {
  static constexpr WgmmaTerms pixels = of_pixels, filters = of_filters;

  __device__ static WgmmaMatrix matrix(const char* shared) { return wgmma_swizzled_matrix(shared); }
};
using WideTermsAlong = WideTerms<WgmmaTerms::along, WgmmaTerms::along>;
using WidePixelsAcross = WideTerms<WgmmaTerms::across, WgmmaTerms::along>;

/// Bytes from the terms of an instruction to the next ones.
template <WgmmaTerms lie>
inline constexpr int next_terms = lie == WgmmaTerms::across ? wgmma_across_bytes : 32;

/// Sums steps of a tile, which begins with step `first`. A stage is released when the next one's
/// products are under way. `Terms` says how terms lie in a stage; 64 rows or columns of the product
/// are 8 KB in any case.
template <class Operand, class Terms = WideTermsAlong, WideShape shape>
__device__ void multiply_stages(const WideShared<shape>& shared, WideStage<shape>& stage, int begin,
                                int end, int first, WideSums<shape>& sums) {
  using Sums = WideSums<shape>;
  constexpr int instructions = 4, m64_bytes = 64 * swizzle_row_bytes;
  const int warpgroup = consumer_warpgroup();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool below = shape.across == 1;
  const WgmmaMatrix a_first =
      Terms::matrix(shared.pixels(0)) + (below ? warpgroup * Sums::m64_tiles * m64_bytes / 16 : 0);
  const WgmmaMatrix b_first =
      Terms::matrix(shared.filters(0)) +
      (below ? 0 : warpgroup * shape.warpgroup_columns() * swizzle_row_bytes / 16);
  const auto release = [&](int number) {
    if (lane == 0) shared.empty(number).arrive();
  };
  int last = 0;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    shared.full(stage.number).wait(stage.parity);
    const WgmmaMatrix at = stage.number * (shape.stage_bytes() / 16);
    sums.settle();
    wgmma_begin();
#pragma unroll
    for (int terms = 0; terms < instructions; ++terms)
#pragma unroll
      for (int i = 0; i < Sums::m64_tiles; ++i)
        wgmma_swizzled<Operand, Sums::n8_tiles, Terms::pixels, Terms::filters>(
            sums.of[i], a_first + at + (i * m64_bytes + terms * next_terms<Terms::pixels>) / 16,
            b_first + at + terms * next_terms<Terms::filters> / 16, terms > 0 || step > first);
    wgmma_commit();
    wgmma_end<1>();
    if (step > begin) release(last);
    last = stage.number;
    stage.advance();
  }
  wgmma_end();
  sums.settle();
  release(last);
}

}  // namespace plumb::cuda
