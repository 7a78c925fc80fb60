// TF32, and one warp's products of it on tensor cores, on the host: sums of eight products in
// double, of which fp32 keeps what is cut off towards zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

using Fragment = std::uint32_t;

/// What the lanes of a warp have of some products.
struct MmaTf32Operands {
  float* d;
  float a[4], b[2];
};

/// One lane's elements of a product of the warp.
inline void make_mma_tf32(const MmaTf32Operands (&shown)[32]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, below = i / 2, column = lane % 4 * 2 + i % 2;
    float& to = shown[lane].d[i];
    double sum = to, largest = 0;
    const MmaTf32Operands *const rows = shown + row * 4, *const columns = shown + column * 4;
    for (int k = 0; k < 8; ++k) {
      const double product = static_cast<double>(rows[k % 4].a[below + k / 4 * 2]) *
                             static_cast<double>(columns[k % 4].b[k / 4]);
      sum += product;
      largest = std::max(largest, std::abs(product));
    }
    // What tensor cores make of a product beyond fp32 is not said: here none is met by another one
    // of the other sign, and it is infinite.
    if (largest > std::numeric_limits<float>::max() && std::isfinite(sum))
      sum = std::copysign(INFINITY, sum);
    const auto nearest = static_cast<float>(sum);
    const bool cut =
        std::isfinite(nearest) && std::abs(static_cast<double>(nearest)) > std::abs(sum);
    to = cut ? std::nextafter(nearest, 0.0f) : nearest;
  }
}

inline void check_tf32(float value) {
  if ((std::bit_cast<std::uint32_t>(value) & 0x1fff) != 0 && value == value)
    throw std::runtime_error("an operand in registers is not rounded to TF32");
}

/// A warp's lanes meet at every eighth product, and make all eight: a barrier takes long here. Sums
/// are so looked at after a multiple of eight products alone. Every other time what is shown lies
/// in memory of its own, so that one barrier is enough: no lane is two of them ahead.
inline void mma_tf32(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  constexpr unsigned at_once = 8;
  static MmaTf32Operands of[32][2][at_once][32];
  static unsigned calls[1024];
  const unsigned call = calls[threadIdx.x]++;
  auto& shown = of[threadIdx.x / 32][call / at_once % 2];
  MmaTf32Operands& own = shown[call % at_once][threadIdx.x % 32];
  own.d = d;
  for (int i = 0; i < 4; ++i) own.a[i] = std::bit_cast<float>(a[i]);
  for (int i = 0; i < 2; ++i) own.b[i] = std::bit_cast<float>(b[i]);
  if (call % at_once + 1 < at_once) return;
  __syncwarp();
  for (const auto& product : shown) {
    for (const float value : product[threadIdx.x % 32].a) check_tf32(value);
    for (const float value : product[threadIdx.x % 32].b) check_tf32(value);
    make_mma_tf32(product);
  }
}

/// To the nearest, ties away from zero.
inline float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace plumb::cuda
