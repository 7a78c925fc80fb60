// The kernel: a producer warpgroup and two consumer warpgroups, persistent over tiles, as wide/ has
// them. Here rows of a stage are terms of the product, and wgmma reads both operands across; f32 as
// it lies is multiplied in wide_weights_registers.cuh.
#pragma once

#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/primitives/registers.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_kernel.cuh"
#include "cuda_kernels/wide_weights/wide_weights_direct.cuh"
#include "cuda_kernels/wide_weights/wide_weights_producer.cuh"
#include "cuda_kernels/wide_weights/wide_weights_registers.cuh"

namespace plumb::cuda {

/// Rows of a stage are pixels, terms of the product; blocks of 64 filters or channels follow each
/// other.
template <class Arithmetic, WideWeightsFault fault>
struct WideTermsAcross : WideTerms<WgmmaTerms::across, WgmmaTerms::across> {
  __device__ static WgmmaMatrix matrix(const char* shared) {
    constexpr int behind =
        weights_block_bytes<Arithmetic> / (fault == WideWeightsFault::wrong_stride ? 2 : 1);
    return wgmma_across_matrix(shared, behind);
  }
};

/// Sums so many steps, in runs whose sums move to `all` before they are long.
template <class Arithmetic, WideWeightsFault fault, WideShape shape>
__device__ void multiply_runs(const WideShared<shape>& shared, WideStage<shape>& stage, int steps,
                              WideSums<shape>& sums, WideSums<shape>& all) {
  constexpr int run = wide_weights_run(Arithmetic::host) / weights_block<Arithmetic>;
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += run) {
    multiply_stages<typename Arithmetic::Operand, WideTermsAcross<Arithmetic, fault>>(
        shared, stage, begin, min(begin + run, steps), begin, sums);
#pragma unroll
    for (int i = 0; i < WideSums<shape>::m64_tiles; ++i)
#pragma unroll
      for (int j = 0; j < 4 * WideSums<shape>::n8_tiles; ++j) all.of[i][j] += sums.of[i][j];
  }
}

/// Writes a warpgroup's sums of a tile to workspace.
template <class Arithmetic, WideShape shape>
__device__ void write_weights_sums(const WideWeightsParams& params, const WideWeightsWork& work,
                                   const WideSums<shape>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const WeightsWarpPlace<Arithmetic, shape> place(work);
  const int first_row = place.row + lane / 4, first_column = place.column;
#pragma unroll
  for (int i = 0; i < WideSums<shape>::m64_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 64 * i + 8 * half;
      if (row >= params.filters) continue;
      float* const to =
          params.sums +
          ((std::int64_t{work.split} * params.groups + work.group) * params.rows + row) *
              params.columns +
          first_column + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < WideSums<shape>::n8_tiles; ++j)
        if (first_column + 8 * j < work.column_end * weights_block<Arithmetic>)
          *reinterpret_cast<float2*>(to + 8 * j) = {sums.of[i][4 * j + 2 * half],
                                                    sums.of[i][4 * j + 2 * half + 1]};
    }
}

/// Writes a warpgroup's sums of a tile, to workspace or to dw.
template <class Arithmetic, WideShape shape>
__device__ void write_weights(const WideWeightsParams& params, const WideShared<shape>& shared,
                              const WideWeightsWork& work, const WideSums<shape>& sums) {
  if (params.direct.dw)
    store_weights_tile<Arithmetic, shape>(params, shared, work, sums);
  else
    write_weights_sums<Arithmetic, shape>(params, work, sums);
}

/// Sums a tile's steps of a split, and writes the sums. Of three products the small ones' sums,
/// whose low halves were raised, are brought down before the large ones are added.
template <class Arithmetic, WideWeightsFault fault, WideShape shape>
__device__ void sum_weights_tile(const WideWeightsParams& params, const WideShared<shape>& shared,
                                 WideStage<shape>& stage, const WideWeightsWork& work) {
  const int steps = work.end - work.begin;
  WideSums<shape> sums;
  if constexpr (!moves_sums(Arithmetic::host)) {
    multiply_stages<typename Arithmetic::Operand, WideTermsAcross<Arithmetic, fault>>(
        shared, stage, 0, steps, 0, sums);
    write_weights<Arithmetic, shape>(params, shared, work, sums);
  } else {
    WideSums<shape> all{};
    if constexpr (Arithmetic::splits_operands) {
      multiply_runs<Arithmetic, fault>(shared, stage, steps, sums, all);
      multiply_runs<Arithmetic, fault>(shared, stage, steps, sums, all);
      all.scale(1 / split_raise);
    }
    multiply_runs<Arithmetic, fault>(shared, stage, steps, sums, all);
    write_weights<Arithmetic, shape>(params, shared, work, all);
  }
}

/// `number` is that of the shape: nvcc takes no structure for a kernel's template argument.
template <class Arithmetic, int number, WideWeightsFault fault>
__global__ void __launch_bounds__(wide_threads, 1)
    wide_weights([[maybe_unused]] const __grid_constant__ WideWeightsParams params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr WideShape shape = wide_shapes[number];
  const WideShared<shape> shared;
  prepare_wide(shared, params.x_map, params.dy_map);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= wide_consumers) {
    give_registers<40>();
    if (thread < wide_consumers + 32) produce_weights<Arithmetic, shape, fault>(params, shared);
    __syncwarp();
  } else {
    take_registers<232>();
    WideStage<shape> stage;
    for_each_weights_work<Arithmetic, shape>(params, [&](const WideWeightsWork& work) {
      if constexpr (weights_in_registers(Arithmetic::host))
        WeightsWarp<Arithmetic, fault, shape>(params, work)
            .multiply(shared, stage, work.end - work.begin);
      else
        sum_weights_tile<Arithmetic, fault>(params, shared, stage, work);
    });
  }
#endif
}

}  // namespace plumb::cuda
