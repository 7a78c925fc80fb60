// NaN passes through this maximum.
#pragma once

namespace plumb::cuda {

/// Returns the larger of the two, or NaN where either is NaN.
__device__ inline float max_nan(float a, float b) {
#ifdef __CUDA_ARCH__
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a > b || a != a ? a : b;
#endif
}
__device__ inline double max_nan(double a, double b) { return a > b || a != a ? a : b; }

}  // namespace plumb::cuda
