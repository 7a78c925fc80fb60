// The kernel: a block keeps its strips of filters, and loads x under one tile after the other,
// where there is room ahead of the tile that it multiplies. What one block waits for is hidden by
// the others on its multiprocessor, too.
#pragma once

#include "cuda_kernels/grouped/grouped_load.cuh"
#include "cuda_kernels/grouped/grouped_store.cuh"

namespace plumb::cuda {

template <class Stored, int number_of_shape, GroupedFault fault = GroupedFault::none>
__global__ void __launch_bounds__(32 * grouped_max_warps, grouped_blocks)
    grouped(const __grid_constant__ GroupedParams<Stored> params) {
  using Params = GroupedParams<Stored>;
  constexpr GroupedShape shape = grouped_shapes[number_of_shape];
  GroupedShared<shape> shared(params);
  const auto [block, part] = params.parts.divide(static_cast<int>(blockIdx.x));
  const int first_strip = part * params.cut.strips;
  const int strips = min(params.cut.strips, params.packed.strips - first_strip) -
                     (fault == GroupedFault::lost_strip ? 1 : 0);
  const int first_unit = params.packed.first_unit(first_strip * shape.bundles);
  // The same for all lanes, and for the compiler too.
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  const int tiles = params.cut.tiles_n * params.cut.tiles_p * params.cut.tiles_q;
  load_filters<fault>(params, shared, first_strip);
  const bool ahead = params.cut.patches > 1;
  constexpr int stale = fault == GroupedFault::stale_patch ? 1 : 0;
#pragma unroll 1
  for (int next = block, turn = 0;; next += params.cut.blocks, turn ^= 1) {
    if (ahead) shared.turn_to(turn);
    if (next < tiles) {
      const GroupedTile tile(params, next);
      find_places<fault>(params, shared, tile);
      __syncthreads();
      GroupedLoad<Params, fault>(params, shared.patch(), shared.rows(), tile, first_unit).load();
    }
    commit_copies();
    const int number = ahead ? next - params.cut.blocks : next;
    if (number >= tiles) return;
    if (number < 0) continue;  // the first tile's x is on its way
    if (ahead) {
      shared.turn_to(turn ^ 1);
      wait_for_copies<1 + stale>();
    } else {
      wait_for_copies<stale>();
    }
    __syncthreads();
#pragma unroll 1
    for (int work = warp; work < strips * params.runs.value(); work += params.cut.warps) {
      const auto [strip, run] = params.runs.divide(work);
      const int pixel = run * shape.pixels();
      GroupedSums<shape> sums = {};
      add_products<fault, shape>(params, shared, strip, pixel, sums);
      GroupedStore<Params, shape>(params, number, shared.places() + pixel, shared.staged(warp),
                                  pixel, (first_strip + strip) * shape.filters())
          .write(sums);
    }
    __syncthreads();
  }
}

}  // namespace plumb::cuda
