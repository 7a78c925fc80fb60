// The kernel: a block loads the input under its outputs, sums them in place and writes them. What
// one block waits for is hidden by the others on its multiprocessor.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_load.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_products.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_store.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <class Stored, bool neighbours, int m, int n, Fault fault>
__global__ void __launch_bounds__(32 * depthwise_toeplitz_warps, depthwise_toeplitz_blocks)
    depthwise_toeplitz(const __grid_constant__ Params params, const Stored* x, const Stored* w,
                       Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  const int thread = static_cast<int>(threadIdx.x);
  const BlockShare share(params, static_cast<int>(blockIdx.x));
  const Shared shared(params);
  shared.begin<fault>(params, share, thread, params.cut.threads());
  __syncthreads();
  const DeepShape<int>& shape = params.shape;
  const Loader<fault> loader(
      params, share, shared, reinterpret_cast<const std::uint16_t*>(x + share.c * shape.x_c),
      reinterpret_cast<const std::uint16_t*>(w + share.c * shape.w_k), thread);
  loader.load_x();
  commit_copies();
  loader.load_taps();
  wait_for_copies<fault == Fault::stale_stage ? 1 : 0>();
  __syncthreads();
  WarpSums<Stored, neighbours, m, n, fault> sums(params, share, shared, thread % 32);
  for (int c = thread / 32; c < share.channels; c += params.cut.warps)
    sums.make(c, y + share.c * shape.y_k, epilogue);
  if (Writer<Stored>::writes_own(params))
    __syncwarp();
  else
    __syncthreads();
  Writer<Stored>(params, share, shared, x, w, y, epilogue, thread).write();
}

}  // namespace plumb::cuda::depthwise_toeplitz
