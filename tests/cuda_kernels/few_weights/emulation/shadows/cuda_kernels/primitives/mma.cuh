// One warp's products on tensor cores, on the host: sums of 16 or 8 products in double, of which
// fp32 keeps what is cut off towards zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "plumb/types.hpp"

namespace plumb::cuda {

using Fragment = std::uint32_t;

/// Shows a warp's lanes each other's values. Every other call has memory of its own, so that one
/// barrier is enough: no lane is two calls ahead.
template <class T>
const T (&shown_to_warp(const T& value))[32] {
  static T of[32][2][32];
  static unsigned calls[1024];
  auto& shown = of[threadIdx.x / 32][++calls[threadIdx.x] % 2];
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  return shown;
}

template <class Number>
float number_of(Fragment word, int half) {
  Number number;
  const auto bits = static_cast<std::uint16_t>(word >> 16 * half);
  std::memcpy(&number, &bits, sizeof bits);
  return static_cast<float>(number);
}

inline float cut_off(double value) {
  const auto nearest = static_cast<float>(value);
  return std::abs(static_cast<double>(nearest)) > std::abs(value) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}

/// Registers of A and B are those of `terms` terms: two and one for each eight.
template <class Number, int terms>
void mma_16_by_8(float (&d)[4], const Fragment* a, const Fragment* b) {
  struct Numbers {
    float a[terms / 4][2], b[terms / 8][2];
  } numbers;
  for (int i = 0; i < terms / 2; ++i) numbers.a[i / 2][i % 2] = number_of<Number>(a[i / 2], i % 2);
  for (int i = 0; i < terms / 4; ++i) numbers.b[i / 2][i % 2] = number_of<Number>(b[i / 2], i % 2);
  const auto& of = shown_to_warp(numbers);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = d[i];
    for (int k = 0; k < terms; ++k)
      sum += static_cast<double>(of[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2][k % 2]) *
             static_cast<double>(of[column * 4 + k % 8 / 2].b[k / 8][k % 2]);
    d[i] = cut_off(sum);
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
