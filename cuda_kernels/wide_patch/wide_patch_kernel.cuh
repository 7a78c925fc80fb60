// The kernel: a producer warpgroup and two consumer warpgroups that take tiles in turns,
// persistent.
#pragma once

#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/primitives/registers.cuh"
#include "cuda_kernels/wide_patch/wide_patch_consumer.cuh"
#include "cuda_kernels/wide_patch/wide_patch_epilogue.cuh"
#include "cuda_kernels/wide_patch/wide_patch_producer.cuh"

namespace plumb::cuda {

/// Sets barriers and the table up, and clears what lies behind each patch: taps of its last outputs
/// read zeros there, which no copy writes. All threads call it, and go on when the kernel before
/// has written.
template <PatchFault fault, class Params>
__device__ void prepare_patches(const Params& params, const PatchShared& shared) {
  constexpr int warps = 4;  // of a consumer warpgroup
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == patch_consumers) {
    prefetch_map(params.map);
    for (int i = 0; i < params.patches; ++i)
      shared.full_patch(i).init(1), shared.empty_patch(i).init(warps);
    for (int i = 0; i < params.stages; ++i) shared.full(i).init(1), shared.empty(i).init(warps);
    for (int i = 0; i < 2; ++i) shared.turn(i).init(warps);
    publish_barriers();
  }
  constexpr std::uint32_t zeros = fault == PatchFault::no_zeros ? 0x3c003c00 : 0;
  const int units = params.tile.behind * swizzle_row_bytes / 16;
  for (int patch = 0; patch < params.patches; ++patch) {
    char* const behind = shared.patch(patch) + params.tile.patch_positions() * swizzle_row_bytes;
    for (int i = thread; i < units; i += patch_threads)
      *reinterpret_cast<uint4*>(behind + 16 * i) = {zeros, zeros, zeros, zeros};
  }
  reinterpret_cast<PatchTable*>(shared.table())->fill<fault>(params, thread, patch_threads);
  order_shared_writes();
  __syncthreads();
  wait_for_kernel_before();
}

/// `instructions`: of a step, 4, or 2 where channels fill no more than half of it.
template <class Arithmetic, int n8_tiles, int instructions, PatchFault fault>
__global__ void __launch_bounds__(patch_threads, 1)
    wide_patch([[maybe_unused]] const __grid_constant__ PatchParams<Arithmetic> params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const PatchShared shared(params);
  prepare_patches<fault>(params, shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= patch_consumers) {
    give_registers<40>();
    if (thread == patch_consumers) produce_patches<fault>(params, shared);
    if (thread == patch_consumers + 32) produce_filters(params, shared);
    __syncwarp();
  } else {
    take_registers<232>();
    const int warpgroup = patch_warpgroup();
    PatchRing patches(params.patches, false), stages(params.stages, params.keeps_filters);
    int parity = 1 - warpgroup;  // the first warpgroup's first turn is at once
#pragma unroll 1
    for (int number = static_cast<int>(blockIdx.x), turn = 0; number < params.works;
         number += static_cast<int>(gridDim.x), turn ^= 1) {
      if (turn != warpgroup) {
        patches.skip(params.patches_of_work), stages.skip(params.steps);
        continue;
      }
      const PatchWork work(params, number);
      float sums[4 * n8_tiles];
      shared.turn(warpgroup).wait(parity);
      parity ^= 1;
      multiply_patches<n8_tiles, instructions, fault>(params, shared, patches, stages, sums);
      write_patch(params, shared, work, sums);
    }
  }
#endif
}

}  // namespace plumb::cuda
