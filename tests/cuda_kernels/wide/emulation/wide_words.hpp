// CUDA's words for the host's compiler, as the wide kernel speaks them. It stands before everything
// else in the sources of kernels.
#pragma once

#include <bit>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cuda_kernels/fields/emulation/device_words.hpp"
#include "cuda_kernels/fields/emulation/emulation.hpp"

#define __CUDA_ARCH_FEAT_SM90_ALL

struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  std::uint32_t x, y;
};
struct alignas(8) float2 {
  float x, y;
};

inline std::uint64_t __cvta_generic_to_shared(const void* at) {
  return reinterpret_cast<std::uint64_t>(at);
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int atomicMax(int* at, int value) { return std::exchange(*at, std::max(*at, value)); }
inline unsigned atomicMin(unsigned* at, unsigned value) {
  return std::exchange(*at, std::min(*at, value));
}

inline constexpr unsigned shown_warps =
    plumb_test::emulation::most_cluster_blocks * plumb_test::emulation::most_block_warps;
/// What a warp's lanes show each other.
template <class T>
T (&shown_by_lanes())
[32] {
  static T of[shown_warps][32];
  return of[plumb_test::emulation::warp_of_cluster()];
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  auto& shown = shown_by_lanes<T>();
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  const T result = shown[lane % 32];
  __syncwarp();
  return result;
}
template <class T>
T __shfl_xor_sync(unsigned all, T value, int lanes) {
  return __shfl_sync(all, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}
inline bool __any_sync(unsigned, bool value) {
  auto& shown = shown_by_lanes<bool>();
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  const bool result = std::find(shown, shown + 32, true) != shown + 32;
  __syncwarp();
  return result;
}
inline int __reduce_max_sync(unsigned, int value) {
  auto& shown = shown_by_lanes<int>();
  shown[threadIdx.x % 32] = value;
  __syncwarp();
  const int result = *std::max_element(shown, shown + 32);
  __syncwarp();
  return result;
}
inline int __reduce_min_sync(unsigned all, int value) { return -__reduce_max_sync(all, -value); }
