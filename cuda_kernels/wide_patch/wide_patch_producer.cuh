// Two producers, a thread each, load patches and filters in the order in which warpgroups multiply
// them.
#pragma once

#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

/// Copies a patch of channels from at[0] on: one box, or of planes as they lie one of each 64
/// pixels.
template <class Params>
__device__ void copy_patch(const Params& params, const CUtensorMap& map, StageBarrier& full,
                           char* to, const int (&at)[5]) {
  if constexpr (Params::Arithmetic::across) {
    int place[5] = {at[1], at[0], 0, 0, at[4]};
#pragma unroll 1
    for (int i = 0; i < params.tile.pitch; i += patch_across_pixels) {
      full.copy_tiled(to + i * swizzle_row_bytes, map, place);
      place[0] += patch_across_pixels;
    }
  } else {
    full.copy_tiled(to, map, at);
  }
}

/// Loads the patches of all tiles. One thread calls it.
template <PatchFault fault, class Params>
__device__ void produce_patches(const Params& params, const PatchShared& shared) {
#pragma unroll 1
  for (int i = 1; i < params.phases; ++i) prefetch_map(params.map_of(i));
  const int bytes = params.tile.patch_positions() * swizzle_row_bytes;
  PatchRing ring(params.patches, false);
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.works;
       number += static_cast<int>(gridDim.x)) {
    const PatchWork work(params, number);
    const int channel = work.group * params.group_channels;
    int at[5] = {channel, 0, 0, work.z * params.axis[2].stride - params.axis[2].before, work.n};
    int block = 0, phase = 0;
#pragma unroll 1
    for (int i = 0; i < params.patches_of_work; ++i) {
      shared.empty_patch(ring.number).wait(ring.parity ^ 1);
      StageBarrier& full = shared.full_patch(ring.number);
      const bool stale = fault == PatchFault::stale_patch && i + 1 == params.patches_of_work;
      full.arrive_expecting(stale ? 0 : bytes);
      const bool last_of_phases = phase > 0 && phase + 1 == params.phases;
      const int shift = fault == PatchFault::wrong_begin && last_of_phases ? 1 : 0;
      const int map = fault == PatchFault::other_phase && last_of_phases ? phase - 1 : phase;
      at[1] = work.q + params.phase[phase].begin[0] + shift;
      at[2] = work.p + params.phase[phase].begin[1];
      if (!stale) copy_patch(params, params.map_of(map), full, shared.patch(ring.number), at);
      if (++phase == params.phases) {
        phase = 0, at[0] += Params::Arithmetic::step_channels;
        if (++block == params.channel_blocks)
          block = 0, at[0] = channel, at[3] += params.axis[2].dilation;
      }
      ring.advance();
    }
  }
}

/// Loads the filters of all tiles, or once those that stay. One thread calls it.
template <class Params>
__device__ void produce_filters(const Params& params, const PatchShared& shared) {
  const int taps = params.axis[0].taps * params.axis[1].taps;
  const std::int64_t step_bytes = std::int64_t{params.all_rows} * swizzle_row_bytes;
  const std::int64_t tap_bytes = params.channel_blocks * step_bytes;
  const std::int64_t next_column = params.next_tap[0] * tap_bytes,
                     next_line = params.next_tap[1] * tap_bytes;
  PatchRing ring(params.stages, false);
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.works;
       number += static_cast<int>(gridDim.x)) {
    const PatchWork work(params, number);
    const int bytes = min(patch_filters, params.rows - work.filter) * swizzle_row_bytes;
    const char* plane =
        params.filters + (std::int64_t{work.group} * params.rows + work.filter) * swizzle_row_bytes;
    int block = 0, phase = 0;
#pragma unroll 1
    for (int i = 0; i < params.patches_of_work; ++i) {
      const PatchPhase& of = params.phase[phase];
      const char* line = plane + block * step_bytes + of.tap * tap_bytes;
#pragma unroll 1
      for (int r = 0; r < of.taps[1]; ++r, line += next_line) {
        const char* from = line;
#pragma unroll 1
        for (int s = 0; s < of.taps[0]; ++s, from += next_column) {
          shared.empty(ring.number).wait(ring.parity ^ 1);
          StageBarrier& full = shared.full(ring.number);
          full.arrive_expecting(bytes);
          full.copy(shared.filters(ring.number), from, bytes);
          ring.advance();
        }
      }
      if (++phase == params.phases) {
        phase = 0;
        if (++block == params.channel_blocks) block = 0, plane += taps * tap_bytes;
      }
    }
    if (params.keeps_filters) return;
  }
}

}  // namespace plumb::cuda
