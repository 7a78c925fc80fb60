// bfloat16 on the host.
#pragma once

#include "plumb/types.hpp"

struct __nv_bfloat16 {
  plumb::BFloat16 of;

  __nv_bfloat16() = default;
  __nv_bfloat16(plumb::BFloat16 value) : of(value) {}          // NOLINT: as CUDA's is
  __nv_bfloat16(int value) : of(static_cast<float>(value)) {}  // NOLINT
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value.of); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {plumb::BFloat16(value)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 of) {
  return {__bfloat162float(of.x), __bfloat162float(of.y)};
}
inline bool __hbeq2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __bfloat162float(a.x) == __bfloat162float(b.x) &&
         __bfloat162float(a.y) == __bfloat162float(b.y);
}
