// Barriers in shared memory and bulk copies, emulated.
#pragma once

#include "cuda_kernels/toeplitz/emulation/shadows/cuda_kernels/primitives/bulk_copy.cuh"

namespace plumb::cuda {

inline constexpr bool bulk_copies = true;

}  // namespace plumb::cuda
