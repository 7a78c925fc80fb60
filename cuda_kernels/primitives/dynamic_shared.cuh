// Kernels reach the dynamic shared memory of their launch through one function.
#pragma once

namespace plumb::cuda {

/// The memory is aligned to 128 bytes, as the copy engine wants its boxes.
__device__ inline char* dynamic_shared() {
  extern __shared__ __align__(128) float4 dynamic_shared_memory[];
  return reinterpret_cast<char*>(dynamic_shared_memory);
}

}  // namespace plumb::cuda
