// The shared memory that a launch asks for.
#pragma once

namespace plumb::cuda {

/// Aligned to 16 bytes.
__device__ inline char* dynamic_shared() {
  extern __shared__ float4 dynamic_shared_memory[];
  return reinterpret_cast<char*>(dynamic_shared_memory);
}

}  // namespace plumb::cuda
