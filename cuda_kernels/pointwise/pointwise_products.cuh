// A warp multiplies its fragments of x by a chunk of filters from shared memory.
#pragma once

#include "cuda_kernels/pointwise/pointwise_load.cuh"
#include "cuda_kernels/wide/wide_halves.cuh"

namespace plumb::cuda {

/// Sums of a tile's pixels and a chunk's filters, of m16 by n8 tiles.
template <class Arithmetic, int n8_tiles>
using PointwiseSums = float[Arithmetic::m16_tiles][n8_tiles][4];

/// One product of the warp, in the arithmetic of its operands.
template <class Arithmetic>
__device__ inline void multiply_pointwise(float (&sum)[4], const Fragment (&a)[4],
                                          const Fragment (&b)[2]) {
  if constexpr (Arithmetic::is_tf32)
    mma_tf32(sum, a, b);
  else if constexpr (Arithmetic::host.stored == DType::f16)
    mma_fp16(sum, a, b);
  else
    mma_bf16(sum, a, b);
}

/// The fragments of a k step, which are split where it is wanted.
template <class Arithmetic, PointwiseFault fault>
struct PointwiseHalves {
  Fragment high[Arithmetic::m16_tiles][4], low[Arithmetic::m16_tiles][4];

  template <class Fragments>
  __device__ PointwiseHalves(const Fragments& fragments, int unit, int step) {
#pragma unroll
    for (int j = 0; j < Arithmetic::m16_tiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const WideTf32Halves halves(__uint_as_float(fragments.of[unit][j][step][i]));
        high[j][i] = halves.high;
        low[j][i] = fault == PointwiseFault::lost_low ? 0 : halves.low;
      }
  }
};

/// Adds the products of a unit, of its first `steps` k steps; of three the small ones first.
/// `filters` are the lane's of the unit's first tile.
template <PointwiseFault fault, class Arithmetic, int n8_tiles, class Fragments>
__device__ void add_unit(PointwiseSums<Arithmetic, n8_tiles>& sums, const Fragments& fragments,
                         int unit, const char* filters, Arithmetic, int steps = 2) {
  constexpr int m16_tiles = Arithmetic::m16_tiles, planes = Arithmetic::planes;
  uint4 b[n8_tiles][planes];
#pragma unroll
  for (int i = 0; i < n8_tiles; ++i)
#pragma unroll
    for (int plane = 0; plane < planes; ++plane)
      b[i][plane] = *reinterpret_cast<const uint4*>(filters + (i * planes + plane) *
                                                                  pointwise_fragment_bytes);
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    if (step >= steps) break;
    const auto columns = [&](int i, int plane, Fragment(&to)[2]) {
      to[0] = word(b[i][plane], 2 * step), to[1] = word(b[i][plane], 2 * step + 1);
    };
    const auto product = [&](const Fragment(&rows)[m16_tiles][4], int plane) {
#pragma unroll
      for (int i = 0; i < n8_tiles; ++i) {
        Fragment to[2];
        columns(i, plane, to);
#pragma unroll
        for (int j = 0; j < m16_tiles; ++j) multiply_pointwise<Arithmetic>(sums[j][i], rows[j], to);
      }
    };
    if constexpr (!Arithmetic::splits) {
#pragma unroll
      for (int i = 0; i < n8_tiles; ++i) {
        Fragment to[2];
        columns(i, 0, to);
#pragma unroll
        for (int j = 0; j < m16_tiles; ++j)
          multiply_pointwise<Arithmetic>(sums[j][i], fragments.of[unit][j][step], to);
      }
    } else {
      const PointwiseHalves<Arithmetic, fault> halves(fragments, unit, step);
      product(halves.low, 0);
      if constexpr (fault == PointwiseFault::low_twice)
        product(halves.low, 1);
      else
        product(halves.high, 1);
      product(halves.high, 0);
    }
  }
}

}  // namespace plumb::cuda
