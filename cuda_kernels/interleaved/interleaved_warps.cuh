// Barriers of some of a block's warps, and registers that roles give to each other (PTX).
#pragma once

namespace plumb::cuda {

/// A barrier of `threads` of the block's threads, whole warps; number 0 is that of all.
template <int barrier>
__device__ inline void meet_threads(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(barrier), "r"(threads) : "memory");
}

/// Gives each thread of a role `count` registers instead of the `begin` that it begins with.
template <int begin, int count>
__device__ void take_registers() {
  if constexpr (count > begin)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace plumb::cuda
