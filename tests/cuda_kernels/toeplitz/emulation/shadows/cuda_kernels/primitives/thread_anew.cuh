// The thread's number, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

inline int thread_anew() { return static_cast<int>(threadIdx.x); }

}  // namespace plumb::cuda
