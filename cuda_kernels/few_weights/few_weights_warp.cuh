// What a warp does at once: rows of a fragment are read, and the largest of some numbers is found.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda::few_weights {

/// Loads the A fragment of 16 rows by 16 terms. Lane l passes the address of row l % 16 at term
/// l / 16 * 8, a multiple of 16 bytes.
__device__ inline void load_rows(Fragment (&a)[4], const std::uint16_t* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

/// The largest number of a warp's lanes.
__device__ inline int largest_of_warp(int value) { return __reduce_max_sync(~0u, value); }

}  // namespace plumb::cuda::few_weights
