// wgmma of core matrices that two strides place in shared memory, emulated: each thread sums its
// part of D when the instruction is issued, in fp64 rounded once.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/fields/emulation/products.hpp"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {

inline void wgmma_begin() {}
inline void wgmma_commit() {}
template <int running = 0>
void wgmma_end() {}
template <int count>
void wgmma_settle(float (&)[count]) {}

/// A sixteenth of the bytes from where the block's shared memory begins.
inline std::uint32_t wgmma_address(const void* shared) {
  return static_cast<std::uint32_t>(
      (static_cast<const char*>(shared) - plumb_test::emulation::shared_memory()) / 16);
}

/// Reads the terms of a row: the descriptor's low bits say where the first core matrix lies, the
/// next how far those of the next terms are, and those of the next eight rows.
template <class Operand>
void read_wgmma_row(const char* shared, std::uint64_t descriptor, int row, double (&terms)[16]) {
  using Number = std::conditional_t<std::is_same_v<Operand, __half>, Half, BFloat16>;
  const auto field = [&](int at) { return static_cast<int>(descriptor >> at & 0x3fff); };
  for (int eight = 0; eight < 2; ++eight) {
    std::uint16_t bits[8];
    const int at = field(0) + eight * field(16) + row / 8 * field(32) + row % 8;
    std::memcpy(bits, shared + 16 * at, sizeof(bits));
    for (int i = 0; i < 8; ++i)
      terms[8 * eight + i] = plumb_test::emulation::number_of_bits<Number>(bits[i]);
  }
}

template <class Operand>
void wgmma_strided(float (&sums)[64], std::uint64_t a, std::uint64_t b, int add) {
  using plumb_test::emulation::Pair;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  const char* const shared = plumb_test::emulation::shared_memory();
  double row[2][16], column[16];
  for (int half = 0; half < 2; ++half)
    read_wgmma_row<Operand>(shared, a, 16 * warp + lane / 4 + 8 * half, row[half]);
  Pair rows[16];
  for (int term = 0; term < 16; ++term) rows[term] = Pair{row[0][term], row[1][term]};
  for (int j = 0; j < 16; ++j)
    for (int i = 0; i < 2; ++i) {
      read_wgmma_row<Operand>(shared, b, 8 * j + lane % 4 * 2 + i, column);
      float &upper = sums[4 * j + i], &lower = sums[4 * j + 2 + i];
      const Pair before = add ? Pair{upper, lower} : Pair{};
      const Pair after = plumb_test::emulation::with_products(before, rows, column);
      upper = static_cast<float>(after[0]), lower = static_cast<float>(after[1]);
    }
}

}  // namespace plumb::cuda
