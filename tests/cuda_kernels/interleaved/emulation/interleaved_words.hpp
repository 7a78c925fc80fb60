// CUDA's words for the host's compiler, as the interleaved kernels speak them. It stands before
// everything else in the sources of kernels.
#pragma once

#include "cuda_kernels/toeplitz/emulation/toeplitz_words.hpp"
//
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

struct int2 {
  int x, y;
};

/// Of the one selection that is made.
inline unsigned __byte_perm(unsigned first, unsigned second, unsigned) {
  return (first & 0xffff) | second << 16;
}
inline int __any_sync(unsigned of, int condition) {
  return static_cast<int>(__reduce_max_sync(of, condition != 0 ? 1u : 0u));
}
inline int atomicMin(int* at, int value) { return std::exchange(*at, std::min(*at, value)); }

inline float __low2float(__half2 of) { return __half2float(of.x); }
inline float __high2float(__half2 of) { return __half2float(of.y); }
inline float __low2float(__nv_bfloat162 of) { return __bfloat162float(of.x); }
inline float __high2float(__nv_bfloat162 of) { return __bfloat162float(of.y); }
inline __half2 made_of(float x, float y, __half2) { return __floats2half2_rn(x, y); }
inline __nv_bfloat162 made_of(float x, float y, __nv_bfloat162) {
  return __floats2bfloat162_rn(x, y);
}
template <class Pair>
Pair __habs2(Pair of) {
  return made_of(std::fabs(__low2float(of)), std::fabs(__high2float(of)), of);
}
template <class Pair>
Pair __hmax2_nan(Pair a, Pair b) {
  const auto larger = [](float x, float y) { return x > y || x != x ? x : y; };
  return made_of(larger(__low2float(a), __low2float(b)), larger(__high2float(a), __high2float(b)),
                 a);
}

#define __builtin_assume(condition)
