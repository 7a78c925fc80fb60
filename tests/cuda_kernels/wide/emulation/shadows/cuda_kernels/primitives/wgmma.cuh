// wgmma of swizzled tiles in shared memory, emulated: each thread sums its part of D when the
// instruction is issued, in fp64 rounded once.
#pragma once

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/primitives/swizzle.hpp"

namespace plumb::cuda {

/// A sixteenth of the bytes from where the block's shared memory begins.
using WgmmaMatrix = std::uint32_t;

inline void wgmma_begin() {}
inline void wgmma_commit() {}
template <int running = 0>
void wgmma_end() {}
template <int count>
void wgmma_settle(float (&)[count]) {}

inline WgmmaMatrix wgmma_swizzled_matrix(const void* shared) {
  return static_cast<WgmmaMatrix>(
      (static_cast<const char*>(shared) - plumb_test::emulation::shared_memory()) / 16);
}

/// Reads a term, whose place the tensor cores swizzle by the address itself.
template <class Operand>
float wgmma_term(WgmmaMatrix matrix, int row, int term) {
  const auto at = reinterpret_cast<std::uintptr_t>(plumb_test::emulation::shared_memory()) +
                  16 * std::uintptr_t{matrix} +
                  static_cast<std::uintptr_t>(row * swizzle_row_bytes) +
                  static_cast<std::uintptr_t>(term) * sizeof(Operand);
  Operand operand;
  std::memcpy(&operand, reinterpret_cast<const void*>(at ^ (at >> 7 & 7) << 4), sizeof(Operand));
  if constexpr (std::is_same_v<Operand, float>)
    if ((std::bit_cast<std::uint32_t>(operand) & 0x1fff) != 0 && operand == operand)
      throw std::runtime_error("an operand is not rounded to TF32");
  return convert<float>(operand);
}

enum class WgmmaTerms { along, across };
inline constexpr int wgmma_across_bytes = 16 * 128;

/// As that of wgmma_swizzled_matrix(), and in the upper half how far the next 64 are.
inline WgmmaMatrix wgmma_across_matrix(const void* shared, int bytes) {
  return wgmma_swizzled_matrix(shared) | static_cast<WgmmaMatrix>(bytes / 16) << 16;
}

/// The same of a tile whose terms lie across: eight of them are the rows of an atom, in which 64
/// rows or columns of the product lie side by side, and eight more the next atom (PTX ISA,
/// "MN-major").
template <class Operand>
float wgmma_across_term(WgmmaMatrix matrix, int row, int term) {
  const int at =
      16 * static_cast<int>(matrix & 0xffff) + row / 64 * 16 * static_cast<int>(matrix >> 16) +
      term / swizzle_rows * swizzle_atom_bytes + term % swizzle_rows * swizzle_row_bytes +
      row % 64 * static_cast<int>(sizeof(Operand));
  const auto address = reinterpret_cast<std::uintptr_t>(plumb_test::emulation::shared_memory()) +
                       static_cast<std::uintptr_t>(at);
  Operand operand;
  std::memcpy(&operand, reinterpret_cast<const void*>(address ^ (address >> 7 & 7) << 4),
              sizeof(Operand));
  return convert<float>(operand);
}

template <class Operand, WgmmaTerms lie>
float wgmma_term_of(WgmmaMatrix matrix, int row, int term) {
  return lie == WgmmaTerms::across ? wgmma_across_term<Operand>(matrix, row, term)
                                   : wgmma_term<Operand>(matrix, row, term);
}

template <class Operand, int n8_tiles, WgmmaTerms of_a = WgmmaTerms::along,
          WgmmaTerms of_b = WgmmaTerms::along>
void wgmma_swizzled(float (&sums)[4 * n8_tiles], WgmmaMatrix a, WgmmaMatrix b, int add) {
  constexpr int terms = 32 / static_cast<int>(sizeof(Operand));
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  float rows[2][terms];
  for (int half = 0; half < 2; ++half)
    for (int term = 0; term < terms; ++term)
      rows[half][term] = wgmma_term_of<Operand, of_a>(a, 16 * warp + lane / 4 + 8 * half, term);
  for (int j = 0; j < n8_tiles; ++j)
    for (int i = 0; i < 2; ++i) {
      float column[terms];
      for (int term = 0; term < terms; ++term)
        column[term] = wgmma_term_of<Operand, of_b>(b, 8 * j + lane % 4 * 2 + i, term);
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
