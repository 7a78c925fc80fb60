// A kernel may start while the one before it on its stream ends (PTX griddepcontrol, sm_90).
#pragma once

namespace plumb::cuda {

/// Waits until all that the kernels before have written can be read, in a kernel that was launched
/// early (Launch::early()); others go on at once.
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace plumb::cuda
