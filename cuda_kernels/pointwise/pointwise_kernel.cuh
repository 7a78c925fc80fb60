// The kernel: a warp loads a batch of x while it multiplies the one before, and stores a tile's
// outputs while the next tile's first batch is under way. Once a block has its filters there is no
// barrier.
#pragma once

#include "cuda_kernels/pointwise/pointwise_store.cuh"

namespace plumb::cuda {

/// Copies the packed filters and the biases of the block's chunks to shared memory.
template <int n8_tiles, class Params>
__device__ void fill_shared(const Params& params, const PointwiseShared<n8_tiles>& shared,
                            const PointwiseShare& share) {
  using Arithmetic = typename Params::Arithmetic;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const auto* const from = reinterpret_cast<const uint4*>(
      params.filters + std::int64_t{share.first_chunk} * params.chunk_bytes);
  auto* const to = reinterpret_cast<uint4*>(shared.filters());
  const int vectors = share.chunks * (params.chunk_bytes / pointwise_vector_bytes);
#pragma unroll 4
  for (int i = thread; i < vectors; i += threads) to[i] = __ldg(from + i);
  for (int i = thread; i < share.chunks * 4 * n8_tiles; i += threads) {
    const int tile = i % n8_tiles, t = i / n8_tiles % 4, chunk = i / n8_tiles / 4;
    const int filter = PointwisePlace::first_filter(Arithmetic::vector, n8_tiles,
                                                    share.first_chunk + chunk, tile, t);
    float2 both = {0, 0};
    if (filter < params.k) both.x = params.epilogue.template bias_of<float>(filter);
    if (filter + 1 < params.k) both.y = params.epilogue.template bias_of<float>(filter + 1);
    shared.biases(chunk, t)[tile] = both;
  }
}

template <class Arithmetic, int n8_tiles, PointwiseInput input,
          PointwiseFault fault = PointwiseFault::none>
__global__ void __launch_bounds__(32 * pointwise_warps(n8_tiles, false), 1)
    pointwise(const __grid_constant__ PointwiseParams<Arithmetic> params) {
  using Params = PointwiseParams<Arithmetic>;
  using Aim = PointwiseAim<Params, input>;
  constexpr int batch_units = Arithmetic::batch_units;
  const PointwiseShare share(params);
  const PointwiseShared<n8_tiles> shared(params.group_chunks * params.chunk_bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Aim aim(params);
  typename Aim::Raw raw;
  PointwiseFragments<Arithmetic, input, fault> fragments;
  aim.at(share.tile);
  if constexpr (Aim::prefetches) aim.load(raw, 0);
  fill_shared<n8_tiles>(params, shared, share);
  __syncthreads();

  const int chunks = share.chunks - (fault == PointwiseFault::lost_chunk ? 1 : 0);
#pragma unroll 1
  for (int tile = share.tile; tile < params.tiles; tile += share.tile_step) {
#pragma unroll 1
    for (int chunk = share.chunk; chunk < chunks; chunk += share.chunk_step) {
      PointwiseSums<Arithmetic, n8_tiles> sums = {};
      const char* filters =
          shared.filters() + chunk * params.chunk_bytes + lane * pointwise_vector_bytes;
#pragma unroll 1
      for (int batch = 0; batch < params.batches; ++batch) {
        const bool is_last = batch + 1 == params.batches;
        const bool is_stale = fault == PointwiseFault::stale_fragment && is_last && batch > 0;
        if constexpr (!Aim::prefetches) aim.load(raw, batch * batch_units);
        if (!is_stale) fragments.take(raw, params.zero);
        // What comes next: the tile's next batch, its first one for the next chunk, or that of the
        // next tile.
        if (is_last && chunk + share.chunk_step >= chunks)
          aim.at(min(tile + share.tile_step, params.tiles));
        if constexpr (Aim::prefetches) aim.load(raw, is_last ? 0 : (batch + 1) * batch_units);
#pragma unroll
        for (int unit = 0; unit < batch_units; ++unit) {
          add_unit<fault>(sums, fragments, unit, filters, Arithmetic{});
          filters += n8_tiles * Arithmetic::planes * pointwise_fragment_bytes;
        }
      }
      PointwiseStore<Params, n8_tiles, fault>(params, shared, share, tile, chunk).write(sums);
    }
  }
}

/// The same of few channels and many filters: a warp holds the fragments of all channels of a tile
/// through all chunks of filters, while all of its next tile is under way.
template <class Arithmetic, PointwiseInput input, PointwiseFault fault = PointwiseFault::none>
__global__ void __launch_bounds__(32 * pointwise_warps(pointwise_held_tiles, true), 1)
    pointwise_held(const __grid_constant__ PointwiseParams<Arithmetic> params) {
  using Params = PointwiseParams<Arithmetic>;
  using Aim = PointwiseAim<Params, input>;
  constexpr int n8_tiles = pointwise_held_tiles, held = pointwise_held_batches;
  const PointwiseShare share(params);
  const PointwiseShared<n8_tiles> shared(params.group_chunks * params.chunk_bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Aim aim(params);
  typename Aim::Raw raw[held];
  PointwiseFragments<Arithmetic, input, fault> fragments[held];
  aim.at(share.tile);
  aim.load_all(raw, params.batches);
  fill_shared<n8_tiles>(params, shared, share);
  __syncthreads();

  const int chunks = share.chunks - (fault == PointwiseFault::lost_chunk ? 1 : 0);
#pragma unroll 1
  for (int tile = share.tile; tile < params.tiles; tile += share.tile_step) {
    const bool is_stale = fault == PointwiseFault::stale_fragment && tile != share.tile;
#pragma unroll
    for (int i = 0; i < held; ++i)
      if ((i == 0 || i < params.batches) && !is_stale) fragments[i].take(raw[i], params.zero);
    aim.at(min(tile + share.tile_step, params.tiles));
    aim.load_all(raw, params.batches);
#pragma unroll 1
    for (int chunk = share.chunk; chunk < chunks; chunk += share.chunk_step) {
      PointwiseSums<Arithmetic, n8_tiles> sums = {};
      const char* filters =
          shared.filters() + chunk * params.chunk_bytes + lane * pointwise_vector_bytes;
#pragma unroll
      for (int i = 0; i < held; ++i) {
        if (i > 0 && i >= params.batches) break;
#pragma unroll
        for (int unit = 0; unit < Arithmetic::batch_units; ++unit) {
          add_unit<fault>(sums, fragments[i], unit, filters, Arithmetic{});
          filters += n8_tiles * Arithmetic::planes * pointwise_fragment_bytes;
        }
      }
      PointwiseStore<Params, n8_tiles, fault>(params, shared, share, tile, chunk).write(sums);
    }
  }
}

}  // namespace plumb::cuda
