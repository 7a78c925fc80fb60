// A step's products of a warp: fragments come from swizzled rows without bank conflicts.
#pragma once

#include "cuda_kernels/few_weights/few_weights_warp.cuh"
#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/primitives/mma_fp64.cuh"
#include "cuda_kernels/wide_mma/wide_mma_params.cuh"

namespace plumb::cuda {

/// A warp's sums: fragments of 16 pixels by eight filters.
template <class Stored, WideMmaShape shape>
struct WideMmaSums {
  using Sum = ComputeType<Stored>;
  static constexpr int m16_tiles = shape.warp_rows() / 16, n8_tiles = shape.warp_columns() / 8;
  Sum of[m16_tiles][4 * n8_tiles] = {};

  __device__ Sum (&fragment(int i, int j))[4] { return reinterpret_cast<Sum(&)[4]>(of[i][4 * j]); }
};

__device__ inline void add_product(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2],
                                   __half) {
  mma_fp16(d, a, b);
}
__device__ inline void add_product(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2],
                                   __nv_bfloat16) {
  mma_bf16(d, a, b);
}
__device__ inline void add_product(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2],
                                   float) {
  mma_tf32(d, a, b);
}

/// Adds the products of a stage's rows from `pixels` and `filters` on, which are the warp's first.
/// An instruction takes two of a row's eight units, by ldmatrix: 16 channels of halves, 8 of TF32.
template <class Stored, WideMmaShape shape>
__device__ void add_stage(WideMmaSums<Stored, shape>& sums, const char* pixels,
                          const char* filters) {
  using Sums = WideMmaSums<Stored, shape>;
  constexpr int m16_tiles = Sums::m16_tiles, n8_tiles = Sums::n8_tiles;
  static_assert(n8_tiles % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32, of_atom = lane % 8;
  const char* const a_row = pixels + lane % 16 * swizzle_row_bytes;
  // Two n8 tiles at once: eight filters with both units, then the next eight.
  const char* const b_row = filters + (lane / 16 * 8 + of_atom) * swizzle_row_bytes;
  const auto rows = [](Fragment(&to)[4], const char* from) {
    few_weights::load_rows(to, reinterpret_cast<const std::uint16_t*>(from));
  };
#pragma unroll
  for (int unit = 0; unit < swizzle_row_bytes / 16; unit += 2) {
    const int a_at = ((unit + lane / 16) ^ of_atom) * 16,
              b_at = ((unit + lane / 8 % 2) ^ of_atom) * 16;
    Fragment a[m16_tiles][4], b[n8_tiles / 2][4];
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i) {
      rows(a[i], a_row + i * 16 * swizzle_row_bytes + a_at);
      // Filters have been rounded by the packing.
      if constexpr (std::is_same_v<Stored, float>)
#pragma unroll
        for (Fragment& value : a[i]) value = __float_as_uint(to_tf32(__uint_as_float(value)));
    }
#pragma unroll
    for (int j = 0; j < n8_tiles / 2; ++j) rows(b[j], b_row + j * 16 * swizzle_row_bytes + b_at);
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i)
#pragma unroll
      for (int j = 0; j < n8_tiles; ++j) {
        const Fragment of_filters[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        add_product(sums.fragment(i, j), a[i], of_filters, Stored{});
      }
  }
}

/// The same of doubles, of which an instruction takes eight channels. Which of a row's sixteen they
/// are is free, as long as filters have the same: those of four lanes are such that lanes of four
/// neighbouring rows, which are read at once, meet no bank twice. They are read one by one, to
/// where the instruction has them: of two at once the compiler moves each to there, for each
/// product.
template <WideMmaShape shape>
__device__ void add_stage(WideMmaSums<double, shape>& sums, const char* pixels,
                          const char* filters) {
  using Sums = WideMmaSums<double, shape>;
  constexpr int m16_tiles = Sums::m16_tiles, n8_tiles = Sums::n8_tiles;
  constexpr int eight_rows = 8 * swizzle_row_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32, group = lane / 4, t = lane % 4;
  const int row = group * swizzle_row_bytes + t % 2 * 8;
  const auto one = [](const char* at) { return *reinterpret_cast<const double*>(at); };
#pragma unroll
  for (int unit = 0; unit < 4; unit += 2) {
    // The lane's terms t and t + 4.
    const int first = row + ((unit + t / 2 * 4) ^ group) * 16,
              second = row + ((unit + 1 + t / 2 * 4) ^ group) * 16;
    double a[m16_tiles][4], b[n8_tiles][2];
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i) {
      const char* const above = pixels + 2 * i * eight_rows;
      a[i][0] = one(above + first), a[i][1] = one(above + eight_rows + first);
      a[i][2] = one(above + second), a[i][3] = one(above + eight_rows + second);
    }
#pragma unroll
    for (int j = 0; j < n8_tiles; ++j) {
      b[j][0] = one(filters + j * eight_rows + first);
      b[j][1] = one(filters + j * eight_rows + second);
    }
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i)
#pragma unroll
      for (int j = 0; j < n8_tiles; ++j) mma_fp64(sums.fragment(i, j), a[i], b[j]);
  }
}

}  // namespace plumb::cuda
