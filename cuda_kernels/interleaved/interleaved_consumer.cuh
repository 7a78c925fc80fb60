// The consumer warp groups form the products of interleaved.cu, with both operands in shared memory
// (PTX wgmma); one thread loads the filters that stream there.
//
// Nothing of x passes through registers: a tap further on is a descriptor so many core rows further
// on, whatever the alignment. So a product of 64 x 128 x 16 takes its 64 clocks (one H200, also by
// one warp group alone), and there are ten instructions for each three products.
#pragma once

#include "cuda_kernels/interleaved/interleaved_params.cuh"
#include "cuda_kernels/primitives/split.hpp"
#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// A thread's share of 64 x 128 sums.
using InterleavedSums = float[64];

/// A thread's sums of a pass where a k step is one product.
template <class Scheme>
struct PassSums {
  InterleavedSums of;

  __device__ void clear() {
#pragma unroll
    for (float& sum : of) sum = 0;
  }
  /// Adds a k step's product.
  __device__ void multiply(std::uint32_t w, std::uint32_t x, std::uint32_t, int add) {
    wgmma_shared<typename Scheme::Half>(of, w, x, add);
  }
  __device__ void settle() { wgmma_settle(of); }
  __device__ void scale(float by) {
#pragma unroll
    for (float& sum : of) sum *= by;
  }
  __device__ float operator[](int i) const { return of[i]; }
};
/// Split operands have three products, of which the small ones have sums of their own
/// (SplitWindows).
template <>
struct PassSums<SplitCoreRows> {
  InterleavedSums of, small;

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < 64; ++i) of[i] = small[i] = 0;
  }
  __device__ void multiply(std::uint32_t w, std::uint32_t x, std::uint32_t low_apart, int add) {
    wgmma_shared<__half>(small, w + interleaved_part_bytes / 16, x, add);
    wgmma_shared<__half>(of, w, x, add);
    wgmma_shared<__half>(small, w, x + low_apart, 1);
  }
  __device__ void settle() { wgmma_settle(of), wgmma_settle(small); }
  __device__ void scale(float by) {
#pragma unroll
    for (int i = 0; i < 64; ++i) of[i] *= by, small[i] *= by;
  }
  __device__ float operator[](int i) const { return fmaf(small[i], 1 / split_raise, of[i]); }
};

/// Says where a warp group is in the circular buffer of stages that filters stream through.
struct PipelineState {
  int stage = 0, parity = 0;
};

/// Returns the address of a stage of filters as descriptors have it, with the distance from one
/// half of a k step's terms to the other.
template <class Params>
__device__ std::uint32_t filters_at(const Params& params, int stage) {
  constexpr std::uint32_t halves_apart = interleaved_rows * 16 / 16 << 16;
  return (wgmma_address(dynamic_shared() + params.w_at) | halves_apart) +
         stage * (k_tile_bytes / 16);
}

/// Whether a pass's first product is its sums, or is added to what they hold.
enum class FirstProduct { is_sum, is_added };

/// Multiplies the 128 positions from `x` on by filters that stay in shared memory, from `w` on.
template <FirstProduct first, class Params>
__device__ void multiply_by_all(const Params& params, std::uint32_t x, std::uint32_t w,
                                PassSums<typename Params::Scheme>& sums) {
  constexpr int added = first == FirstProduct::is_added;
  const std::uint32_t low = params.low_apart / 16;
  wgmma_begin();
#pragma unroll 2
  for (int k_step = 0; k_step < params.k_steps; ++k_step, w += Params::k_step_bytes / 16)
    sums.multiply(w, x + params.k_steps_at[k_step], low, added | k_step);
  wgmma_commit();
  wgmma_end();
}

/// Multiplies by a chunk's filters that stream, k tile after k tile; each k tile is released when
/// the next one's products are under way.
template <FirstProduct first, class Params>
__device__ void multiply_by_k_tiles(const Params& params, InterleavedControl& control,
                                    std::uint32_t x, PipelineState& state,
                                    PassSums<typename Params::Scheme>& sums) {
  constexpr int added = first == FirstProduct::is_added;
  const std::uint32_t low = params.low_apart / 16;
  const auto leave_last = [&] {
    if (threadIdx.x % 128 == 0)
      control.filters_empty[state.stage == 0 ? params.filter_stages - 1 : state.stage - 1].arrive();
  };
#pragma unroll 1
  for (int k_tile = 0; k_tile < params.k_tiles; ++k_tile) {
    control.filters_full[state.stage].wait(state.parity);
    const std::uint32_t w = filters_at(params, state.stage);
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < Params::k_tile_steps; ++i)
      sums.multiply(w + i * (Params::k_step_bytes / 16),
                    x + params.k_steps_at[k_tile * Params::k_tile_steps + i], low,
                    added | (k_tile + i));
    wgmma_commit();
    wgmma_end<1>();
    if (k_tile > 0) leave_last();
    if (++state.stage == params.filter_stages) state.stage = 0, state.parity ^= 1;
  }
  wgmma_end();
  leave_last();
}

/// Stores a pass's sums to the stage that the epilogue warps read.
template <class Scheme>
__device__ void stage_outputs(const PassSums<Scheme>& sums, float* to) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  to += (warp * 16 + staged_row(lane / 4)) * stage_pitch + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 64; i += 4) {
    *reinterpret_cast<float2*>(to + i * 2) = {sums[i], sums[i + 1]};
    *reinterpret_cast<float2*>(to + i * 2 + 8 * stage_pitch) = {sums[i + 2], sums[i + 3]};
  }
}

/// Multiplies tile after tile, 128 output positions at a time. These passes are numbered through
/// the block's tiles, and its warp groups take turns at them.
template <class Params>
__device__ void consume(const Params& params, InterleavedControl& control) {
  const InterleavedTeam team(params);
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int passes = team.passes(params);
  const bool streams = params.streams();
  PipelineState state;
  int grant = 0;   // the parity of the next round of output_empty
  int round = -1;  // the block's tile that the warp group is at
  int2 of_tile = {};
#pragma unroll 1
  for (int first_pass = 0, of_tile_pass = warpgroup, next = 0; first_pass < passes;
       first_pass += interleaved_warpgroups, of_tile_pass += interleaved_warpgroups) {
    const int pass = first_pass + warpgroup;
    // Both warp groups take all k tiles, also where one has nothing to make of them.
    const bool exists = pass < passes;
    if (!exists && !streams) break;
    for (; of_tile_pass >= params.passes; of_tile_pass -= params.passes) ++next;
    // Tiles of which this warp group makes nothing are left at once.
    while (exists && round < next) {
      ++round;
      control.full[round % 2].wait(round / 2 & 1);
      of_tile = {control.exponent[round % 2], control.flags[round % 2]};
      if (round < next) control.empty[round % 2].arrive();
    }
    const int turn = max(round, 0) % 2;
    const std::uint32_t tile_at =
        wgmma_address(dynamic_shared() + params.x_at + turn * params.x_apart);
    // One lane gives the value to all, so that the compiler knows it to be the same.
    const std::uint32_t x =
        __shfl_sync(0xffffffff, tile_at + (exists ? of_tile_pass * interleaved_columns : 0), 0);
    PassSums<typename Params::Scheme> sums;
    if (streams) {
      multiply_by_k_tiles<FirstProduct::is_sum>(params, control, x, state, sums);
    } else {
      if (first_pass == 0) control.filters_full[0].wait(0);
      multiply_by_all<FirstProduct::is_sum>(params, x, filters_at(params, 0), sums);
    }
    sums.settle();
    if (!exists) break;
    if (of_tile_pass + interleaved_warpgroups >= params.passes) control.empty[turn].arrive();
    if (pass > 0) {
      control.output_empty[warpgroup][warp].wait(grant);
      grant ^= 1;
    }
    stage_outputs(sums, params.staged());
    if (threadIdx.x % 32 == 0) control.stage_of[warpgroup][warp] = of_tile;
    control.output_full[warpgroup][warp].arrive();
  }
}

/// Loads filters into their stages, over and over where they stream: once for two passes of the
/// block, or where channels come in chunks once for a tile. One thread calls it.
template <class Params>
__device__ void produce_filters(const Params& params, InterleavedControl& control) {
  const InterleavedTeam team(params);
  const int rounds = params.chunks > 1 ? team.tiles(params)
                                       : (team.passes(params) + interleaved_warpgroups - 1) /
                                             interleaved_warpgroups;
  const int k_tiles = params.chunks * params.k_tiles;
  const int all = params.streams() ? rounds * k_tiles : 1;
  const char* const k_steps =
      params.packed + team.number * params.group_bytes + packed_header_bytes;
  const int bytes = params.filter_stage_bytes;
  int stage = 0, k_tile = 0, parity = 1;
  for (int i = 0; i < all; ++i) {
    if (i >= params.filter_stages) control.filters_empty[stage].wait(parity);
    control.filters_full[stage].expect(bytes);
    control.filters_full[stage].copy(dynamic_shared() + params.w_at + stage * bytes,
                                     k_steps + static_cast<std::int64_t>(k_tile) * bytes, bytes);
    if (++k_tile == k_tiles) k_tile = 0;
    if (++stage == params.filter_stages) stage = 0, parity ^= 1;
  }
}

}  // namespace plumb::cuda
