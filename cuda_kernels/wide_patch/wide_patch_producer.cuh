// Two producers, a thread each, load patches and filters in the order in which warpgroups multiply
// them.
#pragma once

#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

/// Copies a patch of channels from at[0] on: one box, or of planes as they lie one of each 64
/// pixels.
template <class Params>
__device__ void copy_patch(const Params& params, StageBarrier& full, char* to, const int (&at)[5]) {
  if constexpr (Params::Arithmetic::across) {
    int place[5] = {at[1], at[0], 0, 0, at[4]};
#pragma unroll 1
    for (int i = 0; i < params.tile.pitch; i += patch_across_pixels) {
      full.copy_tiled(to + i * swizzle_row_bytes, params.map, place);
      place[0] += patch_across_pixels;
    }
  } else {
    full.copy_tiled(to, params.map, at);
  }
}

/// Loads the patches of all tiles. One thread calls it.
template <PatchFault fault, class Params>
__device__ void produce_patches(const Params& params, const PatchShared& shared) {
  const int bytes = params.tile.patch_positions() * swizzle_row_bytes;
  PatchRing ring(params.patches, false);
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.works;
       number += static_cast<int>(gridDim.x)) {
    const PatchWork work(params, number);
    const int channel = work.group * params.group_channels;
    int at[5] = {channel, work.q - params.axis[0].before, work.p - params.axis[1].before,
                 work.z * params.axis[2].stride - params.axis[2].before, work.n};
    int block = 0;
#pragma unroll 1
    for (int i = 0; i < params.patches_of_work; ++i) {
      shared.empty_patch(ring.number).wait(ring.parity ^ 1);
      StageBarrier& full = shared.full_patch(ring.number);
      const bool stale = fault == PatchFault::stale_patch && i + 1 == params.patches_of_work;
      full.arrive_expecting(stale ? 0 : bytes);
      if (!stale) copy_patch(params, full, shared.patch(ring.number), at);
      at[0] += Params::Arithmetic::step_channels;
      if (++block == params.channel_blocks)
        block = 0, at[0] = channel, at[3] += params.axis[2].dilation;
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
  PatchRing ring(params.stages, false);
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.works;
       number += static_cast<int>(gridDim.x)) {
    const PatchWork work(params, number);
    const int bytes = min(patch_filters, params.rows - work.filter) * swizzle_row_bytes;
    const char* plane =
        params.filters + (std::int64_t{work.group} * params.rows + work.filter) * swizzle_row_bytes;
    int block = 0;
#pragma unroll 1
    for (int i = 0; i < params.patches_of_work; ++i) {
      const char* from = plane + block * step_bytes;
#pragma unroll 1
      for (int tap = 0; tap < taps; ++tap) {
        shared.empty(ring.number).wait(ring.parity ^ 1);
        StageBarrier& full = shared.full(ring.number);
        full.arrive_expecting(bytes);
        full.copy(shared.filters(ring.number), from, bytes);
        from += tap_bytes;
        ring.advance();
      }
      if (++block == params.channel_blocks) block = 0, plane += taps * tap_bytes;
    }
    if (params.keeps_filters) return;
  }
}

}  // namespace plumb::cuda
