// Barriers of some of a block's warps (PTX bar.sync).
#pragma once

namespace plumb::cuda {

/// A barrier of `threads` of the block's threads, whole warps; number 0 is that of all.
template <int threads>
__device__ inline void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}
/// The same where only the barrier's number is known to the compiler.
template <int barrier>
__device__ inline void meet_threads(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(barrier), "r"(threads) : "memory");
}

}  // namespace plumb::cuda
