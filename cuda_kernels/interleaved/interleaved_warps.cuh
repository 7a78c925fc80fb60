// Barriers of some of a block's warps, and registers that roles give to each other (PTX).
#pragma once

#include "cuda_kernels/primitives/named_barrier.cuh"

namespace plumb::cuda {

/// Gives each thread of a role `count` registers instead of the `begin` that it begins with.
template <int begin, int count>
__device__ void take_registers() {
  if constexpr (count > begin)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace plumb::cuda
