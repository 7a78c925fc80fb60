// CUDA's words for the host's compiler. It stands before everything else in the sources of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#define __host__
#define __device__
#define __global__
#define __noinline__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct BlockCoordinate {
  unsigned x;
};
extern BlockCoordinate threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __syncwarp();
int __syncthreads_or(int condition);

template <class T>
T __ldg(const T* from) {
  return *from;
}
using std::fma;
using std::max;
using std::min;
