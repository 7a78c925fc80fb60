// Of what the windows' kernels multiply, what the interleaved ones take too.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda {

struct Zeros {
  int low = 0, high = 0;
};

/// Two elements of 16 bits, of the type that instructions on both of them take.
template <class Half>
using HalfPair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;

/// Returns two elements of 16 bits in a register, rounded to nearest.
template <class Half>
inline Fragment two_halves(float first, float second) {
  if constexpr (std::is_same_v<Half, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const Fragment*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const Fragment*>(&pair);
  }
}

struct SplitHalves {
  Fragment high, low;

  SplitHalves(float first, float second) : high(two_halves<__half>(first, second)) {
    const __half2 pair = *reinterpret_cast<const __half2*>(&high);
    // This is exact, and the raising does not wait for the rounding of the high parts.
    low = two_halves<__half>(fmaf(__low2float(pair), -split_raise, first * split_raise),
                             fmaf(__high2float(pair), -split_raise, second * split_raise));
  }
};

/// In the place of the one that conv/two_outputs.cuh has in assembly.
template <bool shared, class Stored>
void write_pair(Stored* to, float first, float second);
template <>
inline void write_pair<false, float>(float* to, float first, float second) {
  if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0)
    throw std::runtime_error("a pair is not aligned");
  to[0] = first, to[1] = second;
}

}  // namespace plumb::cuda
