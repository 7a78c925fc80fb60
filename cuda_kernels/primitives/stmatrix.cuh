// A warp stores matrices of eight by eight elements of two bytes to shared memory (PTX stmatrix,
// sm_90).
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// Stores four matrices, each held as mma.cuh's fragments are (row lane / 4, columns 2 (lane % 4)
/// and the next), column by column. `column` is where eight elements of one column go, 16 aligned
/// bytes: lane l's is column l % 8 of matrix l / 8.
__device__ inline void store_columns([[maybe_unused]] void* column,
                                     [[maybe_unused]] const std::uint32_t (&of)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(column))),
               "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(of[3])
               : "memory");
#endif
}

/// Stores four matrices row by row. `row` is where eight elements of one row go: lane l's is row
/// l % 8 of matrix l / 8.
__device__ inline void store_rows([[maybe_unused]] void* row,
                                  [[maybe_unused]] const std::uint32_t (&of)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
               "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(of[3])
               : "memory");
#endif
}

}  // namespace plumb::cuda
