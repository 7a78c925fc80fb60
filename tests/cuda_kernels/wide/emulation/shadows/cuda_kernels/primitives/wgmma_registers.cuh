// wgmma with A in registers, emulated: a warp's lanes show each other their fragments.
#pragma once

#include <cmath>
#include <limits>

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

using Fragment = std::uint32_t;

inline void wgmma_hold(const Fragment (&)[4]) {}

/// What tensor cores make of a product beyond fp32 is not said: here it is infinite.
inline double product(double a, double b) {
  constexpr double largest = std::numeric_limits<float>::max();
  const double exact = a * b;
  return std::abs(exact) > largest ? std::copysign(INFINITY, exact) : exact;
}

template <int n8_tiles>
void wgmma_registers(float (&sums)[4 * n8_tiles], const Fragment (&a)[4], WgmmaMatrix b, int add) {
  static Fragment shown[shown_warps][32][4];  // of a warp's lanes
  const int lane = static_cast<int>(threadIdx.x % 32), first = lane / 4 * 4;
  auto& of_warp = shown[plumb_test::emulation::warp_of_cluster()];
  std::memcpy(of_warp[lane], a, sizeof(a));
  __syncwarp();
  const auto term_of_row = [&](int half, int term) {
    const float value = std::bit_cast<float>(of_warp[first + term % 4][half + term / 4 * 2]);
    if ((std::bit_cast<std::uint32_t>(value) & 0x1fff) != 0 && value == value)
      throw std::runtime_error("an operand in registers is not rounded to TF32");
    return static_cast<double>(value);
  };
  const char* const shared = plumb_test::emulation::shared_memory();
  double rows[2][8], column[8];
  for (int half = 0; half < 2; ++half)
    for (int term = 0; term < 8; ++term) rows[half][term] = term_of_row(half, term);
  for (int j = 0; j < n8_tiles; ++j)
    for (int i = 0; i < 2; ++i) {
      read_wgmma_row<float>(shared, b, 8 * j + lane % 4 * 2 + i, column);
      for (int half = 0; half < 2; ++half) {
        float& to = sums[4 * j + 2 * half + i];
        double sum = add ? to : 0;
        for (int term = 0; term < 8; ++term) sum += product(rows[half][term], column[term]);
        to = static_cast<float>(sum);
      }
    }
  __syncwarp();
}

}  // namespace plumb::cuda
