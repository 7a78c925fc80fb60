// wgmma of tiles whose rows are terms, emulated as the shadow of wgmma.cuh has it.
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// As that of wgmma_swizzled_matrix(), and in the upper half how far the next 64 are.
inline WgmmaMatrix wgmma_across_matrix(const void* shared, int bytes) {
  return wgmma_swizzled_matrix(shared) | static_cast<WgmmaMatrix>(bytes / 16) << 16;
}

/// Reads a term: eight of them are the rows of an atom, in which 64 rows or columns of the product
/// lie side by side, and eight more the next atom (PTX ISA, "MN-major").
template <class Operand>
float wgmma_across_term(WgmmaMatrix matrix, int row, int term) {
  const int at =
      16 * static_cast<int>(matrix & 0xffff) + row / 64 * 16 * static_cast<int>(matrix >> 16) +
      term / swizzle_rows * swizzle_atom_bytes + term % swizzle_rows * swizzle_row_bytes +
      row % 64 * static_cast<int>(sizeof(Operand));
  // The tensor cores swizzle by the address itself.
  const auto address = reinterpret_cast<std::uintptr_t>(plumb_test::emulation::shared_memory()) +
                       static_cast<std::uintptr_t>(at);
  Operand operand;
  std::memcpy(&operand, reinterpret_cast<const void*>(address ^ (address >> 7 & 7) << 4),
              sizeof(Operand));
  return convert<float>(operand);
}

inline constexpr int wgmma_across_bytes = 16 * 128;

template <class Operand, int n8_tiles, bool has_b_across>
void wgmma_across(float (&sums)[4 * n8_tiles], WgmmaMatrix a, WgmmaMatrix b, int add) {
  constexpr int terms = 16;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  float rows[2][terms];
  for (int half = 0; half < 2; ++half)
    for (int term = 0; term < terms; ++term)
      rows[half][term] = wgmma_across_term<Operand>(a, 16 * warp + lane / 4 + 8 * half, term);
  for (int j = 0; j < n8_tiles; ++j)
    for (int i = 0; i < 2; ++i) {
      float column[terms];
      for (int term = 0; term < terms; ++term)
        column[term] = has_b_across ? wgmma_across_term<Operand>(b, 8 * j + lane % 4 * 2 + i, term)
                                    : wgmma_term<Operand>(b, 8 * j + lane % 4 * 2 + i, term);
      for (int half = 0; half < 2; ++half) {
        float& to = sums[4 * j + 2 * half + i];
        double sum = add ? to : 0;
        for (int term = 0; term < terms; ++term)
          sum += static_cast<double>(rows[half][term]) * column[term];
        to = static_cast<float>(sum);
      }
    }
}

}  // namespace plumb::cuda
