// Halves on the host.
#pragma once

#include <cmath>

#include "plumb/types.hpp"

struct __half {
  plumb::Half of;

  __half() = default;
  __half(plumb::Half value) : of(value) {}              // NOLINT: as CUDA's is
  __half(int value) : of(static_cast<float>(value)) {}  // NOLINT
};
struct __half2 {
  __half x, y;
};
inline float __half2float(__half value) { return static_cast<float>(value.of); }
inline __half __float2half_rn(float value) { return {plumb::Half(value)}; }
inline unsigned short __half_as_ushort(__half value) { return value.of.bits; }
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
inline float2 __half22float2(__half2 of) { return {__half2float(of.x), __half2float(of.y)}; }
inline bool __hbeq2(__half2 a, __half2 b) {
  return __half2float(a.x) == __half2float(b.x) && __half2float(a.y) == __half2float(b.y);
}
