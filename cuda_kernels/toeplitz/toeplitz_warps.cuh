// Barriers of some of a block's warps, and registers that warps give to each other (PTX).
#pragma once

namespace plumb::cuda {

/// A barrier of `threads` of the block's threads, whole warps; number 0 is that of all.
template <int threads>
__device__ inline void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

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
