// The kernel: a block keeps its strips of filters, and loads x under one tile after the other. What
// one block waits for is hidden by the others on its multiprocessor.
#pragma once

#include "cuda_kernels/grouped/grouped_bands.cuh"
#include "cuda_kernels/grouped/grouped_load.cuh"
#include "cuda_kernels/grouped/grouped_store.cuh"

namespace plumb::cuda {

template <class Stored, int number_of_shape, bool bands, GroupedFault fault = GroupedFault::none>
__global__ void __launch_bounds__(32 * grouped_max_warps, grouped_blocks)
    grouped(const __grid_constant__ GroupedParams<Stored> params) {
  using Params = GroupedParams<Stored>;
  constexpr GroupedShape shape = grouped_shapes[number_of_shape];
  const GroupedShared<shape, Params::size> shared(params);
  const auto [block, part] = params.parts.divide(static_cast<int>(blockIdx.x));
  const int first_strip = part * params.cut.strips;
  const int strips = min(params.cut.strips, params.packed.strips - first_strip) -
                     (fault == GroupedFault::lost_strip ? 1 : 0);
  const int first_unit = params.packed.first_unit(first_strip * shape.bundles);
  // The same for all lanes, and for the compiler too.
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  const int tiles = params.cut.tiles_n * params.cut.tiles_p * params.cut.tiles_q;
  load_filters<fault>(params, shared, first_strip);
#pragma unroll 1
  for (int number = block; number < tiles; number += params.cut.blocks) {
    const GroupedTile tile(params, number);
    find_places<fault>(params, shared, tile);
    __syncthreads();
    GroupedLoad<Params, fault>(params, shared.patch(), shared.rows(), tile, first_unit).load();
    commit_copies();
    wait_for_copies<fault == GroupedFault::stale_patch ? 1 : 0>();
    __syncthreads();
#pragma unroll 1
    for (int work = warp; work < strips * params.runs.value(); work += params.cut.warps) {
      const auto [strip, run] = params.runs.divide(work);
      const int pixel = run * shape.pixels();
      GroupedSums<shape> sums = {};
      if constexpr (bands)
        add_band_products<fault, shape>(params, shared, strip, pixel, sums);
      else
        add_products<fault, shape>(params, shared, strip, pixel, sums);
      GroupedStore<Params, shape>(params, number, shared.places() + pixel, shared.staged(warp),
                                  pixel, (first_strip + strip) * shape.filters())
          .write(sums);
    }
    __syncthreads();
  }
}

}  // namespace plumb::cuda
