// The kernel: a producer warpgroup and two consumer warpgroups, persistent over tiles.
#pragma once

#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/primitives/registers.cuh"
#include "cuda_kernels/primitives/tensor_copy.cuh"
#include "cuda_kernels/wide/wide_boxes.cuh"
#include "cuda_kernels/wide/wide_cluster.cuh"
#include "cuda_kernels/wide/wide_epilogue.cuh"
#include "cuda_kernels/wide/wide_producer.cuh"
#include "cuda_kernels/wide/wide_registers.cuh"

namespace plumb::cuda {

/// Sets the barriers up, and has the tensor maps on their way meanwhile. All threads call it, and
/// go on when all barriers are there and the kernel before has written.
template <WideShape shape, class... Maps>
__device__ void prepare_wide(const WideShared<shape>& shared, const Maps&... maps) {
  constexpr int consumer_warps = wide_consumers / 32;
  if (threadIdx.x == wide_consumers) {
    (prefetch_map(maps), ...);
    for (int i = 0; i < shape.stages(); ++i) {
      shared.full(i).init(1);
      shared.empty(i).init(consumer_warps);
    }
    for (int i = 0; i < consumer_warps; ++i) shared.sent(i).init(1);
    publish_barriers();
  }
  __syncthreads();
  wait_for_kernel_before();
}

/// `number` is that of the shape: nvcc takes no structure for a kernel's template argument.
template <class Arithmetic, int number, WideFault fault>
__global__ void __launch_bounds__(wide_threads, 1)
    wide([[maybe_unused]] const __grid_constant__ WideParams<Arithmetic> params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr WideShape shape = wide_shape(Arithmetic::host, number);
  const WideShared<shape> shared;
  prepare_wide(shared, params.map);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= wide_consumers) {
    give_registers<40>();
    if (thread == wide_consumers) produce<shape, fault>(params, shared);
    __syncwarp();
  } else {
    take_registers<232>();
    WideStage<shape> stage;
    WideBoxes<shape, WideParams<Arithmetic>> boxes(params, shared);
#pragma unroll 1
    for (int of_block = static_cast<int>(blockIdx.x); of_block < params.works;
         of_block += static_cast<int>(gridDim.x)) {
      const WideWorkItem work = wide_work<shape>(params, of_block);
      WideSums<shape> sums;
      multiply_tile<fault>(params, shared, stage, work, sums);
      if constexpr (!Arithmetic::across)
        if (work.in_cluster && !add_splits<fault>(params, shared, sums, work)) continue;
      if constexpr (Arithmetic::stores_boxes)
        if (params.stores_boxes) {
          boxes.template write<fault>(sums, work);
          continue;
        }
      write_tile(params, shared, sums, work);
    }
    boxes.finish();
  }
#endif
}

}  // namespace plumb::cuda
