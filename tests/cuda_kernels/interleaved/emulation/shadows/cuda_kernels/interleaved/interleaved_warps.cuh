// Barriers of some of a block's warps, emulated. Registers are the host compiler's own affair.
#pragma once

#include "cuda_kernels/primitives/named_barrier.cuh"

namespace plumb::cuda {

template <int begin, int count>
void take_registers() {}

}  // namespace plumb::cuda
