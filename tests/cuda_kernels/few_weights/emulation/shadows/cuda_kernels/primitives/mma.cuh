// One warp's products on tensor cores, on the host: sums of 16 or 8 products in double, of which
// fp32 keeps what is cut off towards zero.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda_kernels/fields/emulation/products.hpp"
#include "plumb/types.hpp"

namespace plumb::cuda {

using Fragment = std::uint32_t;

/// Memory that a warp's lanes show each other values in, after which they meet. Every other call
/// has another one, so that one barrier is enough: no lane is two calls ahead.
template <class T>
T& shown_by_warp() {
  static T of[32][2];
  static unsigned calls[1024];
  return of[threadIdx.x / 32][++calls[threadIdx.x] % 2];
}

/// Shows a warp's lanes each other's values.
template <class T>
const T (&shown_to_warp(const T& value))[32] {
  auto& shown = shown_by_warp<T[32]>();
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  return shown;
}

template <class Number>
float number_of(Fragment word, int half) {
  return plumb_test::emulation::number_of_bits<Number>(
      static_cast<std::uint16_t>(word >> 16 * half));
}

inline float cut_off(double value) {
  const auto nearest = static_cast<float>(value);
  return std::abs(static_cast<double>(nearest)) > std::abs(value) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}

/// The numbers of a product: rows of A, each beside the one eight below, and columns of B.
template <int terms>
struct MmaNumbers {
  plumb_test::emulation::Pair rows[8][terms];
  double columns[8][terms];
};

/// Registers of A and B are those of `terms` terms: two and one for each eight.
template <class Number, int terms>
void mma_16_by_8(float (&d)[4], const Fragment* a, const Fragment* b) {
  using plumb_test::emulation::Pair;
  auto& numbers = shown_by_warp<MmaNumbers<terms>>();
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane / 4, first = lane % 4 * 2;
  for (int term = 0; term < terms / 4; ++term) {
    const int eight = term / 2, half = term % 2, at = 8 * eight + first + half;
    numbers.rows[row][at] =
        Pair{number_of<Number>(a[2 * eight], half), number_of<Number>(a[2 * eight + 1], half)};
    numbers.columns[row][at] = number_of<Number>(b[eight], half);
  }
  __syncwarp();
  for (int i = 0; i < 2; ++i) {
    const Pair sums = plumb_test::emulation::with_products(Pair{d[i], d[2 + i]}, numbers.rows[row],
                                                           numbers.columns[first + i]);
    d[i] = cut_off(sums[0]), d[2 + i] = cut_off(sums[1]);
  }
}

inline void mma_fp16(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  mma_16_by_8<Half, 16>(d, a, b);
}
inline void mma_bf16(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  mma_16_by_8<BFloat16, 16>(d, a, b);
}
inline void mma_fp16(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  mma_16_by_8<Half, 8>(d, a, &b);
}
inline void mma_bf16(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  mma_16_by_8<BFloat16, 8>(d, a, &b);
}

}  // namespace plumb::cuda
