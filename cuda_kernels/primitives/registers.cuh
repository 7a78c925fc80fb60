// Warpgroups share a multiprocessor's registers out by their roles (PTX setmaxnreg, sm_90a).
#pragma once

namespace plumb::cuda {

/// All threads of a warpgroup call it once: keeps so many registers each, and gives the others
/// back.
template <int count>
__device__ inline void give_registers() {
#if defined(__CUDA_ARCH__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
#endif
}
/// Waits until there are so many registers for each.
template <int count>
__device__ inline void take_registers() {
#if defined(__CUDA_ARCH__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
#endif
}

}  // namespace plumb::cuda
