// wgmma of core matrices that two strides place in shared memory, emulated: each thread sums its
// part of D when the instruction is issued, in fp64 rounded once.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_kernels/fields/emulation/emulation.hpp"
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

/// Reads a term of a row: the descriptor's low bits say where the first core matrix lies, the next
/// how far those of the next terms are, and those of the next eight rows.
template <class Operand>
float wgmma_term(std::uint64_t descriptor, int row, int term) {
  static const std::vector<float> values = [] {
    std::vector<float> of(1 << 16);
    for (std::uint32_t i = 0; i < of.size(); ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      Operand value;
      std::memcpy(&value, &bits, sizeof bits);
      of[i] = convert<float>(value);
    }
    return of;
  }();
  const auto field = [&](int at) { return static_cast<int>(descriptor >> at & 0x3fff); };
  const int at =
      16 * (field(0) + term / 8 * field(16) + row / 8 * field(32) + row % 8) + term % 8 * 2;
  std::uint16_t bits;
  std::memcpy(&bits, plumb_test::emulation::shared_memory() + at, 2);
  return values[bits];
}

template <class Operand>
void wgmma_strided(float (&sums)[64], std::uint64_t a, std::uint64_t b, int add) {
  constexpr int terms = 16;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  float rows[2][terms];
  for (int half = 0; half < 2; ++half)
    for (int term = 0; term < terms; ++term)
      rows[half][term] = wgmma_term<Operand>(a, 16 * warp + lane / 4 + 8 * half, term);
  for (int j = 0; j < 16; ++j)
    for (int i = 0; i < 2; ++i) {
      float column[terms];
      for (int term = 0; term < terms; ++term)
        column[term] = wgmma_term<Operand>(b, 8 * j + lane % 4 * 2 + i, term);
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
