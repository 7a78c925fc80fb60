// A consumer warpgroup multiplies 64 filters with the positions of patch after patch (PTX wgmma,
// both operands in shared memory).
#pragma once

#include "cuda_kernels/primitives/wgmma_columns.cuh"
#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

/// Which of the block's consumer warpgroups this is, the same for the compiler too.
__device__ inline int patch_warpgroup() {
  return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
}

/// Sums a tile's steps: for each patch all taps of its phase of a plane, line after line. A tap's
/// positions begin as many rows behind the patch's first as the tap lies behind the filter's first.
/// A stage, and a patch, is released when the products of the next step are under way.
/// `instructions` are those of a step, each of 32 bytes of channels.
template <int n8_tiles, int instructions, PatchFault fault, class Params>
__device__ void multiply_patches(const Params& params, const PatchShared& shared,
                                 PatchRing& patches, PatchRing& stages,
                                 float (&sums)[4 * n8_tiles]) {
  using Operand = typename Params::Arithmetic::Operand;
  constexpr bool across = Params::Arithmetic::across;
  constexpr WgmmaTerms of_patch = across ? WgmmaTerms::across : WgmmaTerms::along;
  constexpr int row = swizzle_row_bytes / 16, next_terms = across ? wgmma_across_bytes / 16 : 2;
  const int lane = static_cast<int>(threadIdx.x) % 32, warpgroup = patch_warpgroup();
  const WgmmaMatrix first_stage = wgmma_swizzled_matrix(shared.filters(0));
  WgmmaMatrix first_patch;
  if constexpr (across)
    first_patch = wgmma_across_matrix(shared.patch(0), patch_across_pixels * swizzle_row_bytes);
  else
    first_patch = wgmma_swizzled_matrix(shared.patch(0));
  const int next_column = params.apart[0] * row,
            next_line = params.apart[1] * params.tile.pitch * row;
  const auto release = [&](int stage) {
    if (lane == 0 && !params.keeps_filters) shared.empty(stage).arrive();
  };
  int last_stage = 0, last_patch = 0, phase = 0;
#pragma unroll 1
  for (int i = 0; i < params.patches_of_work; ++i) {
    shared.full_patch(patches.number).wait(patches.parity);
    WgmmaMatrix line = first_patch + patches.number * (params.patch_bytes / 16);
    const int columns = params.phase[phase].taps[0], lines = params.phase[phase].taps[1];
    const bool lost = fault == PatchFault::lost_phase && phase > 0 && phase + 1 == params.phases;
#pragma unroll 1
    for (int r = 0; r < lines; ++r, line += next_line) {
      WgmmaMatrix b = line;
#pragma unroll 1
      for (int s = 0; s < columns; ++s, b += next_column) {
        shared.full(stages.number).wait(stages.parity);
        const bool begins = i == 0 && r == 0 && s == 0;
        const bool ends = i + 1 == params.patches_of_work && r + 1 == lines && s + 1 == columns;
        WgmmaMatrix a = first_stage + stages.number * (patch_stage_bytes / 16);
        if (fault == PatchFault::lost_stage && ends && !begins)
          a = first_stage + last_stage * (patch_stage_bytes / 16);
        WgmmaMatrix at = b;
        if (fault == PatchFault::wrong_shift && s > 0 && s + 1 == columns) at -= next_column;
        wgmma_settle(sums);
        wgmma_begin();
#pragma unroll
        for (int terms = 0; terms < instructions && !lost; ++terms)
          wgmma_columns<Operand, n8_tiles, of_patch>(sums, a + 2 * terms, at + next_terms * terms,
                                                     terms > 0 || !begins);
        wgmma_commit();
        wgmma_end<1>();
        if (!begins) release(last_stage);
        if (i > 0 && r == 0 && s == 0 && lane == 0) shared.empty_patch(last_patch).arrive();
        last_stage = stages.number;
        stages.advance();
      }
    }
    last_patch = patches.number;
    patches.advance();
    if (++phase == params.phases) phase = 0;
  }
  // All that this warpgroup waits for is there: the other one's is next.
  if (lane == 0) shared.turn(1 - warpgroup).arrive();
  wgmma_end();
  wgmma_settle(sums);
  release(last_stage);
  if (lane == 0) shared.empty_patch(last_patch).arrive();
}

}  // namespace plumb::cuda
