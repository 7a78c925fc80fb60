// The consumer warp groups of interleaved_kernel.cuh where channels come in chunks: a pass's sums
// stay in registers from one chunk of a tile's channels to the next.
//
// A tile has one pass or two. Both warp groups go through its chunks together, so that one stage of
// filters serves both; of a tile of one pass one of them makes nothing, by turns.
#pragma once

#include "cuda_kernels/interleaved/interleaved_consumer.cuh"

namespace plumb::cuda {

/// The power of two that a tile's sums are scaled by, and what was met of its input. Each chunk has
/// an exponent of its own, which the sums of those before are brought to.
struct ChunkScale {
  /// A float holds sums that were scaled up and down so far. Tiles whose chunks lie further apart
  /// are summed by the definition.
  static constexpr int max_apart = 64;
  int exponent = 0, flags = 0, least = 0, most = 0;

  /// Takes the exponent and the flags of the next chunk; returns the factor of the sums so far.
  __device__ float take(int chunk, int of_chunk, int of_flags) {
    const int apart = max(-max_apart, min(of_chunk - exponent, max_apart));
    least = chunk == 0 ? of_chunk : min(least, of_chunk);
    most = chunk == 0 ? of_chunk : max(most, of_chunk);
    exponent = of_chunk;
    flags |= of_flags | (most - least > max_apart ? met_range : 0);
    return power_of_two(apart);
  }
  /// Flags, and above them how much finer the last scale is than the coarsest (sum_flags()).
  __device__ int packed_flags() const {
    return flags | min(exponent - least, max_apart) << met_bits;
  }
};

/// Goes through a tile of which this warp group makes nothing, from `round` on: leaves its input to
/// the other one. Filters do not stream where there are such tiles (tile_interleaved()).
template <class Params>
__device__ void leave_tile(const Params& params, InterleavedControl& control, int round) {
  const int end = round + params.chunks;
#pragma unroll 1
  for (; round < end; ++round) {
    control.full[round % 2].wait(round / 2 & 1);
    control.empty[round % 2].arrive();
  }
}

/// Multiplies tile after tile. Passes are numbered through the block's tiles, and warp groups take
/// turns at them, as in consume().
template <bool streams, class Params>
__device__ void consume_chunks(const Params& params, InterleavedControl& control) {
  const InterleavedTeam team(params);
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int tiles = team.tiles(params);
  if (!streams) control.filters_full[0].wait(0);
  PipelineState state;
  int grant = 0, round = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int of_tile_pass = (warpgroup + tile * params.passes) % interleaved_warpgroups;
    if (of_tile_pass >= params.passes) {
      leave_tile(params, control, round);
      round += params.chunks;
      continue;
    }
    PassSums<typename Params::Scheme> sums;
    sums.clear();
    ChunkScale scale;
#pragma unroll 1
    for (int chunk = 0; chunk < params.chunks; ++chunk, ++round) {
      const int turn = round % 2;
      control.full[turn].wait(round / 2 & 1);
      // Also by 1: where products may begin with sums as they are or with others, ptxas lets none
      // of them run beside each other.
      const float factor = scale.take(chunk, control.exponent[turn], control.flags[turn]);
      if constexpr (Params::Scheme::scaled) sums.scale(factor);
      const std::uint32_t x_at =
          wgmma_address(dynamic_shared() + params.x_at + turn * params.x_apart);
      // One lane gives the value to all, so that the compiler knows it to be the same.
      const std::uint32_t x = __shfl_sync(0xffffffff, x_at + of_tile_pass * interleaved_columns, 0);
      sums.settle();
      if constexpr (streams)
        multiply_by_k_tiles<FirstProduct::is_added>(params, control, x, state, sums);
      else
        multiply_by_all<FirstProduct::is_added>(
            params, x, filters_at(params, 0) + chunk * (params.chunk_bytes / 16), sums);
      sums.settle();
      control.empty[turn].arrive();
    }
    if (tile * params.passes + of_tile_pass > 0) {
      control.output_empty[warpgroup][warp].wait(grant);
      grant ^= 1;
    }
    stage_outputs(sums, params.staged());
    if (threadIdx.x % 32 == 0)
      control.stage_of[warpgroup][warp] = {scale.exponent, scale.packed_flags()};
    control.output_full[warpgroup][warp].arrive();
  }
}

}  // namespace plumb::cuda
