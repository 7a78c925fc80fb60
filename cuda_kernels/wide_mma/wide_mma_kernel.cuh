// The kernel: a block's tile, whose steps are copied some stages ahead of the products. A barrier a
// step: behind it all have waited for the step's copies, and are done with the stage that is
// filled next.
#pragma once

#include "cuda_kernels/wide/wide_epilogue.cuh"
#include "cuda_kernels/wide_mma/wide_mma_load.cuh"
#include "cuda_kernels/wide_mma/wide_mma_products.cuh"

namespace plumb::cuda {

/// Writes a warp's outputs. Each access has code of its own, as in wide/.
template <class Params, WideMmaShape shape>
__device__ void write_tile(const Params& params, char* staged,
                           WideMmaSums<typename Params::Stored, shape>& sums, int group, int pixel,
                           int filter) {
  const auto write = [&]<WideAccess access>() {
    write_outputs<access, 16>(params, staged, sums.of, group, pixel, filter);
  };
  switch (params.access) {
    case WideAccess::filters: return write.template operator()<WideAccess::filters>();
    case WideAccess::pixels: return write.template operator()<WideAccess::pixels>();
    case WideAccess::half_pixels:  // of doubles none is half of 16 bytes
      if constexpr (sizeof(typename Params::Stored) < 8)
        return write.template operator()<WideAccess::half_pixels>();
    case WideAccess::elements: return write.template operator()<WideAccess::elements>();
  }
}

/// Writes a warp's sums of a split to workspace, where sum_splits() finds them.
template <class Params, WideMmaShape shape>
__device__ void write_sums(const Params& params,
                           const WideMmaSums<typename Params::Stored, shape>& sums,
                           const WideMmaTile& tile, int pixel, int filter) {
  using Stored = typename Params::Stored;
  using Sums = WideMmaSums<Stored, shape>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < Sums::m16_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = pixel + 16 * i + 8 * half + lane / 4;
      if (row >= params.pixels) continue;
      auto* const to = params.sums +
                       (std::int64_t{tile.split} * params.pixels + row) * params.all_rows +
                       tile.group * params.rows + filter + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < Sums::n8_tiles; ++j)
        if (filter + 8 * j < params.rows)
          *reinterpret_cast<typename WidePair<Stored>::Sums*>(to + 8 * j) = {
              sums.of[i][4 * j + 2 * half], sums.of[i][4 * j + 2 * half + 1]};
    }
}

template <class Arithmetic, int number, WideMmaFault fault = WideMmaFault::none>
__global__ void __launch_bounds__(wide_mma_shapes[number].threads(), wide_mma_shapes[number].blocks)
    wide_mma(const __grid_constant__ WideMmaParams<Arithmetic> params) {
  using Params = WideMmaParams<Arithmetic>;
  constexpr WideMmaShape shape = wide_mma_shapes[number];
  constexpr int stages = shape.stages, ahead = stages - 1;
  const WideMmaShared<shape> shared;
  const WideMmaTile tile(params, shape);
  find_places(params, shared, tile);
  __syncthreads();
  WideMmaLoad<Params, shape, fault> copies(params, shared, tile);
  const int steps = tile.end - tile.begin;
#pragma unroll
  for (int stage = 0; stage < ahead; ++stage) {
    if (stage < steps) copies.load(stage);
    commit_copies();
  }
  // The same for all lanes, and for the compiler too.
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  const int row = warp / shape.warps_n * shape.warp_rows(),
            column = warp % shape.warps_n * shape.warp_columns();
  WideMmaSums<typename Arithmetic::Stored, shape> sums;
  int now = 0, next = ahead;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<fault == WideMmaFault::early ? ahead : ahead - 1>();
    __syncthreads();
    if (step + ahead < steps) copies.load(next);
    commit_copies();
    const bool is_stale = fault == WideMmaFault::stale_stage && step > 0 && step + 1 == steps;
    const char* const stage = shared.stage(is_stale ? next : now);
    add_stage(sums, stage + row * swizzle_row_bytes,
              stage + shared.filters_at + column * swizzle_row_bytes);
    now = now + 1 == stages ? 0 : now + 1;
    next = next + 1 == stages ? 0 : next + 1;
  }
  if (params.splits > 1)
    return write_sums<Params, shape>(params, sums, tile, tile.pixel + row, tile.filter + column);
  // No copy is under way: those that follow the last step's are of none.
  __syncthreads();
  const auto write = [&](const Params& of) {
    write_tile<Params, shape>(of, shared.staged(warp), sums, tile.group, tile.pixel + row,
                              tile.filter + column);
  };
  if constexpr (fault == WideMmaFault::unmasked) {
    Params more = params;
    ++more.pixels;
    write(more);
  } else {
    write(params);
  }
}

}  // namespace plumb::cuda
