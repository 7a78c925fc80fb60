// Dynamic shared memory, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

inline char* dynamic_shared() { return plumb_test::emulation::shared_memory(); }

}  // namespace plumb::cuda
