// The kernel: a block loads the input under its outputs, sums them in place and writes them. What
// one block waits for is hidden by the others on its multiprocessor.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_load.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_products.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_store.cuh"

namespace plumb::cuda::depthwise_toeplitz {

/// What a thread of a block knows. Each step finds it anew: otherwise registers would hold it, and
/// what follows from it, through all of them.
struct Place {
  int thread;
  BlockShare share;
  Shared shared;

  __device__ explicit Place(const Params& params)
      : thread(anew(static_cast<int>(threadIdx.x))),
        share(params, anew(static_cast<int>(blockIdx.x))),
        shared(params) {}
};

template <Fault fault, class Stored>
__device__ void load_block(const Params& params, const Stored* x, const Stored* w) {
  const Place at(params);
  const auto bits = [](const Stored* from) { return reinterpret_cast<const std::uint16_t*>(from); };
  const Loader<fault> loader(params, at.share, at.shared, bits(x + at.share.c * params.shape.x_c),
                             bits(w + at.share.c * params.shape.w_k), at.thread);
  loader.load_x();
  commit_copies();
  loader.load_taps();
  wait_for_copies<fault == Fault::stale_stage ? 1 : 0>();
}

template <class Stored, bool neighbours, int m, int n, Fault fault>
__device__ bool sum_block(const Params& params, const Stored* y, const Epilogue<Stored>& epilogue) {
  const Place at(params);
  WarpSums<Stored, neighbours, m, n, fault> sums(params, at.share, at.shared, at.thread % 32);
  for (int c = at.thread / 32; c < at.share.channels; c += params.cut.warps)
    sums.make(c, y + at.share.c * params.shape.y_k, epilogue);
  return sums.has_suspects();
}

template <class Stored>
__device__ __noinline__ void mend_block(const Params& params, const Stored* x, const Stored* w,
                                        const Stored* y, const Epilogue<Stored>& epilogue) {
  const Place at(params);
  mend(params, at.share, at.shared, x, w, y, epilogue, at.thread);
}

template <class Stored>
__device__ void write_block(const Params& params, Stored* y) {
  const Place at(params);
  Writer<Stored>(params, at.share, at.shared, y, at.thread).write();
}

template <class Stored, bool neighbours, int m, int n, Fault fault>
__global__ void __launch_bounds__(32 * depthwise_toeplitz_warps, depthwise_toeplitz_blocks)
    depthwise_toeplitz(const __grid_constant__ Params params, const Stored* x, const Stored* w,
                       Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  {
    const Place at(params);
    at.shared.begin<fault>(params, at.share, at.thread, params.cut.threads());
  }
  __syncthreads();
  load_block<fault>(params, x, w);
  __syncthreads();
  const bool suspect = sum_block<Stored, neighbours, m, n, fault>(params, y, epilogue);
  __syncwarp();
  if (__any_sync(~0u, suspect)) mend_block(params, x, w, y, epilogue);
  // A warp that writes the channels that it summed waits for nobody.
  if (params.cut.y_move == Move::columns || params.cut.y_move == Move::elements)
    __syncwarp();
  else
    __syncthreads();
  write_block(params, y);
}

}  // namespace plumb::cuda::depthwise_toeplitz
