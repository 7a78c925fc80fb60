// wgmma of octets, emulated: each thread sums its part of D when the instruction is issued, in
// double, of which fp32 keeps what is cut off towards zero.
#pragma once

#include <cstring>
#include <stdexcept>

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

using WgmmaMatrix = std::uint32_t;

inline void wgmma_begin() {}
inline void wgmma_commit() {}
template <int running = 0>
void wgmma_end() {}
template <int count>
void wgmma_settle(float (&)[count]) {}

/// A sixteenth of the bytes from where the block's shared memory begins.
inline WgmmaMatrix wgmma_address(const void* shared) {
  const auto bytes = static_cast<const char*>(shared) - plumb_test::emulation::shared_memory();
  if (bytes % 16 != 0) throw std::runtime_error("octets do not begin at 16 bytes");
  return static_cast<WgmmaMatrix>(bytes / 16);
}

inline std::uint64_t wgmma_octets_descriptor(WgmmaMatrix address, int eight_terms, int octet) {
  for (const auto field : {static_cast<int>(address), eight_terms, octet})
    if (field < 0 || field >= 1 << 14)
      throw std::runtime_error("a descriptor has no room for a field");
  return static_cast<std::uint64_t>(octet) << 32 |
         (address | static_cast<WgmmaMatrix>(eight_terms) << 16);
}

/// Reads 16 terms of a row of A or a column of B in the block's memory.
inline void read_octet_terms(const char* shared, std::uint64_t descriptor, int row,
                             double (&terms)[16]) {
  const auto field = [&](int at) { return static_cast<int>(descriptor >> at & 0x3fff); };
  for (int eight = 0; eight < 2; ++eight) {
    const char* from =
        shared + 16 * (field(0) + eight * field(16) + row / 8 * field(32)) + 2 * (row % 8);
    for (int term = 0; term < 8; ++term, from += 16) {
      std::uint16_t bits;
      std::memcpy(&bits, from, 2);
      terms[8 * eight + term] = number_of<Half>(bits, 0);
    }
  }
}

template <int octets>
void wgmma_octets(float (&d)[4 * octets], std::uint64_t a, std::uint64_t b) {
  using plumb_test::emulation::Pair;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  const char* const shared = plumb_test::emulation::shared_memory();
  double row[2][16], column[16];
  for (int half = 0; half < 2; ++half)
    read_octet_terms(shared, a, 16 * warp + lane / 4 + 8 * half, row[half]);
  Pair rows[16];
  for (int term = 0; term < 16; ++term) rows[term] = Pair{row[0][term], row[1][term]};
  for (int j = 0; j < octets; ++j)
    for (int i = 0; i < 2; ++i) {
      read_octet_terms(shared, b, 8 * j + lane % 4 * 2 + i, column);
      float &upper = d[4 * j + i], &lower = d[4 * j + 2 + i];
      const Pair sums = plumb_test::emulation::with_products(Pair{upper, lower}, rows, column);
      upper = cut_off(sums[0]), lower = cut_off(sums[1]);
    }
}

}  // namespace plumb::cuda
