// Barriers of some of a block's warps, and registers that warps give to each other (PTX).
#pragma once

#include "cuda_kernels/primitives/named_barrier.cuh"

namespace plumb::cuda {

/// All warps of a warpgroup give registers away, down to so many a thread, or wait for more.
template <int registers>
__device__ inline void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
template <int registers>
__device__ inline void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}

}  // namespace plumb::cuda
