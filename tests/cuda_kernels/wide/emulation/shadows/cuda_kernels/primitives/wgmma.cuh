// wgmma of swizzled tiles in shared memory, emulated: each thread sums its part of D when the
// instruction is issued, in fp64 rounded once.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/fields/emulation/products.hpp"
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

/// The number that an operand holds.
template <class Operand>
double wgmma_number(const char* at) {
  if constexpr (std::is_same_v<Operand, float>) {
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    const auto value = std::bit_cast<float>(bits);
    if ((bits & 0x1fff) != 0 && value == value)
      throw std::runtime_error("an operand is not rounded to TF32");
    return value;
  } else {
    static_assert(sizeof(Operand) == 2);
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    using Number = std::conditional_t<std::is_same_v<Operand, __half>, Half, BFloat16>;
    return plumb_test::emulation::number_of_bits<Number>(bits);
  }
}

/// Where the tensor cores look for what has this address in a tile that is not swizzled: units of
/// 16 bytes are exchanged by the address itself.
inline const char* wgmma_swizzled_at(std::uintptr_t at) {
  return reinterpret_cast<const char*>(at ^ (at >> 7 & 7) << 4);
}

/// How many terms one instruction multiplies: 32 bytes of each row.
template <class Operand>
inline constexpr int wgmma_terms = 32 / static_cast<int>(sizeof(Operand));

/// Reads the terms of a row of a tile that begins at `shared`, the block's memory.
template <class Operand>
void read_wgmma_row(const char* shared, WgmmaMatrix matrix, int row,
                    double (&terms)[wgmma_terms<Operand>]) {
  const auto at = reinterpret_cast<std::uintptr_t>(shared) + 16 * std::uintptr_t{matrix} +
                  static_cast<std::uintptr_t>(row * swizzle_row_bytes);
  constexpr int of_unit = 16 / static_cast<int>(sizeof(Operand));
  for (int unit = 0; unit < 2; ++unit) {
    const char* const from = wgmma_swizzled_at(at + static_cast<std::uintptr_t>(16 * unit));
    for (int i = 0; i < of_unit; ++i)
      terms[unit * of_unit + i] =
          wgmma_number<Operand>(from + i * static_cast<int>(sizeof(Operand)));
  }
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
void read_wgmma_across(const char* shared, WgmmaMatrix matrix, int row,
                       double (&terms)[wgmma_terms<Operand>]) {
  const int first = 16 * static_cast<int>(matrix & 0xffff) +
                    row / 64 * 16 * static_cast<int>(matrix >> 16) +
                    row % 64 * static_cast<int>(sizeof(Operand));
  const auto at = reinterpret_cast<std::uintptr_t>(shared) + static_cast<std::uintptr_t>(first);
  for (int term = 0; term < wgmma_terms<Operand>; ++term) {
    const int to_term =
        term / swizzle_rows * swizzle_atom_bytes + term % swizzle_rows * swizzle_row_bytes;
    terms[term] =
        wgmma_number<Operand>(wgmma_swizzled_at(at + static_cast<std::uintptr_t>(to_term)));
  }
}

template <class Operand, WgmmaTerms lie>
void read_wgmma_terms(const char* shared, WgmmaMatrix matrix, int row,
                      double (&terms)[wgmma_terms<Operand>]) {
  if constexpr (lie == WgmmaTerms::across)
    read_wgmma_across<Operand>(shared, matrix, row, terms);
  else
    read_wgmma_row<Operand>(shared, matrix, row, terms);
}

template <class Operand, int n8_tiles, WgmmaTerms of_a = WgmmaTerms::along,
          WgmmaTerms of_b = WgmmaTerms::along>
void wgmma_swizzled(float (&sums)[4 * n8_tiles], WgmmaMatrix a, WgmmaMatrix b, int add) {
  using plumb_test::emulation::Pair;
  constexpr int terms = wgmma_terms<Operand>;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  const char* const shared = plumb_test::emulation::shared_memory();
  double row[2][terms], column[terms];
  for (int half = 0; half < 2; ++half)
    read_wgmma_terms<Operand, of_a>(shared, a, 16 * warp + lane / 4 + 8 * half, row[half]);
  Pair rows[terms];
  for (int term = 0; term < terms; ++term) rows[term] = Pair{row[0][term], row[1][term]};
  for (int j = 0; j < n8_tiles; ++j)
    for (int i = 0; i < 2; ++i) {
      read_wgmma_terms<Operand, of_b>(shared, b, 8 * j + lane % 4 * 2 + i, column);
      float &upper = sums[4 * j + i], &lower = sums[4 * j + 2 + i];
      const Pair before = add ? Pair{upper, lower} : Pair{};
      const Pair after = plumb_test::emulation::with_products(before, rows, column);
      upper = static_cast<float>(after[0]), lower = static_cast<float>(after[1]);
    }
}

}  // namespace plumb::cuda
