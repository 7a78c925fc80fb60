// Barriers of some of a block's warps, emulated. Registers are the host compiler's own affair.
#pragma once

#include "cuda_kernels/toeplitz/toeplitz_warps.cuh"

namespace plumb::cuda {

template <int barrier>
void meet_threads(int threads) {
  NamedBarriers::One& one = named_barriers().all[barrier];
  if (one.threads != threads) one.barrier.init(threads), one.threads = threads;
  unsigned char& parity = one.parity[threadIdx.x];
  one.barrier.arrive();
  one.barrier.wait(parity);
  parity ^= 1;
}

template <int begin, int count>
void take_registers() {}

}  // namespace plumb::cuda
