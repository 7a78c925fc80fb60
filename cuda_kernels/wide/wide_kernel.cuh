// The kernel: a producer warpgroup and two consumer warpgroups, persistent over tiles.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/primitives/tensor_map.hpp"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_epilogue.cuh"
#include "cuda_kernels/wide/wide_pack.cuh"
#include "cuda_kernels/wide/wide_producer.cuh"
#include "cuda_kernels/wide/wide_splits.cuh"

namespace plumb::cuda {

/// Sets the barriers up. All threads of the cluster call it, and go on when all barriers are there.
template <WideShape shape, class Params>
__device__ void prepare_wide(const Params& params, const WideShared<shape>& shared) {
  constexpr int consumer_warps = wide_consumers / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < shape.stages(); ++i) {
      // One thread arms the barrier; those that gather arrive when they have written.
      shared.full(i).init(params.gathers ? 129 : 1);
      shared.empty(i).init(consumer_warps * shape.cluster);
    }
    publish_barriers();
  }
  __syncthreads();
  if constexpr (shape.cluster > 1) meet_cluster();
}

// Compilers refuse the attribute for older devices, which have no code of the kernel either.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define PLUMB_CLUSTER(blocks)
#else
#define PLUMB_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#endif

/// `number` is that of the shape: nvcc takes no structure for a kernel's template argument.
template <class Stored, int number, WideFault fault>
__global__ void __launch_bounds__(wide_threads, 1) PLUMB_CLUSTER(wide_shapes[number].cluster)
    wide([[maybe_unused]] const __grid_constant__ WideParams<Stored> params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr WideShape shape = wide_shapes[number];
  const WideShared<shape> shared;
  prepare_wide(params, shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= wide_consumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (params.gathers)
      gather<shape>(params, shared);
    else if (thread == wide_consumers)
      produce<shape, fault>(params, shared);
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    WideStage<shape> stage;
    for_each_work<shape>(params, [&](const WideWorkItem& work) {
      WideSums<shape> sums;
      multiply_stages<Stored>(shared, stage, work, sums);
      write_tile(params, shared, sums, work);
    });
  }
  // Blocks of a cluster write to each other's shared memory, and none may have left.
  if constexpr (shape.cluster > 1) meet_cluster();
#endif
}

/// The tensors of a launch.
struct WideCall {
  const void* x;
  const void* filters;
  void* y;
  void* sums;  ///< workspace of the splits
};

template <class Stored>
WideParams<Stored> wide_params(const ConvProblem& p, const WidePlan& plan, const WideCall& call,
                               const Epilogue<Stored>& epilogue) {
  const Extents x = p.x_extents(), y = p.y_extents();
  const auto axis = [&](std::int64_t extent, std::int64_t taps, std::int64_t outputs,
                        std::int64_t stride, std::int64_t dilation, std::int64_t before,
                        int dimension) {
    const bool there = dimension >= 2;
    return WideAxis{.extent = static_cast<int>(extent),
                    .taps = static_cast<int>(taps),
                    .stride = outputs > 1 ? static_cast<int>(stride) : 1,
                    .dilation = taps > 1 ? static_cast<int>(dilation) : 1,
                    .before = static_cast<int>(before),
                    .outputs = Divisor<int>(outputs),
                    .x_step = there ? step<std::int64_t>(x, p.x_strides, dimension) : 0,
                    .y_step = there ? step<std::int64_t>(y, p.y_strides, dimension) : 0};
  };
  const int last = x.rank() - 1;
  const WideTiles& tiles = plan.tiles;
  WideParams<Stored> params{
      .map = {},
      .x = static_cast<const Stored*>(call.x),
      .filters = static_cast<const char*>(call.filters),
      .y = static_cast<Stored*>(call.y),
      .sums = static_cast<float*>(call.sums),
      .epilogue = epilogue,
      .axis = {axis(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left, last),
               axis(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top, last - 1),
               axis(p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front, last - 2)},
      .x_n = step<std::int64_t>(x, p.x_strides, 0),
      .y_n = step<std::int64_t>(y, p.y_strides, 0),
      .y_k = step<std::int64_t>(y, p.y_strides, 1),
      .axes = plan.map.axes,
      .c = static_cast<int>(p.c),
      .k = static_cast<int>(p.k),
      .rows = plan.filters.rows,
      .channel_blocks = plan.filters.channel_blocks,
      .steps = plan.filters.steps(),
      .splits = tiles.splits,
      .pixels = static_cast<int>(tiles.pixels),
      .works = static_cast<int>(tiles.works()),
      .n_tiles = Divisor<int>(tiles.n_tiles),
      .m_groups = Divisor<int>(tiles.m_groups),
      .gathers = false,
      .vectors = takes_vectors(p, call.y),
      .lays_out_filters = p.y_strides[1] == 1 && p.k > 1,
      .repairs = p.padding != Padding{}};
  Im2colMap map = plan.map;
  map.pixels = wide_shapes[tiles.shape].pixels_of_copy();
  params.gathers = reinterpret_cast<std::uintptr_t>(call.x) % tensor_map_alignment != 0 ||
                   !encode_im2col(params.map, map, dtype_of_stored<Stored>, call.x);
  return params;
}

/// Puts a convolution on the stream, by the kernel of the plan's tiles.
template <class Stored, int number, WideFault fault = WideFault::none>
void launch_wide(const WideParams<Stored>& params, const DeviceInfo& device, void* stream) {
  constexpr WideShape shape = wide_shapes[number];
  // A block takes a whole multiprocessor.
  const int clusters = std::min(params.works, std::max(device.units / shape.cluster, 1));
  Launch(stream, static_cast<unsigned>(clusters * shape.cluster), wide_threads,
         shape.shared_bytes())(wide<Stored, number, fault>, params);
  if (params.splits == 1) return;
  const int filter_vectors = params.rows / 8;
  Launch(stream, blocks_for(std::int64_t{params.pixels} * filter_vectors, wide_summing_threads),
         wide_summing_threads)(sum_splits<Stored, fault>, params, Divisor<int>(filter_vectors));
}

/// Calls `f.operator()<number>()` for a shape's number.
template <int number = 0, class F>
void with_shape(int wanted, const F& f) {
  if (number == wanted) return f.template operator()<number>();
  if constexpr (number + 1 < wide_shape_count) with_shape<number + 1>(wanted, f);
}

}  // namespace plumb::cuda
