// Filters are packed as matrices: each eight taps of a row of the filter, from a multiple of eight
// on, make a core matrix for eight neighbouring outputs, in which a row has the taps one further
// on.
#pragma once

#include <cuda_fp16.h>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"
#include "cuda_kernels/toeplitz/toeplitz_params.cuh"

namespace plumb::cuda {

inline constexpr int toeplitz_packing_threads = 256;

/// The filters as the caller has them, and where they go.
struct ToeplitzPacking {
  FieldView view;  ///< with the strides of w
  ToeplitzFilters filters;
  std::int64_t filter_bytes, part_bytes;
  const float* w;
  char* packed;
  float* dense;

  /// A tap, or zero where there is none.
  __device__ float tap(int k, int c, int t, int r, int s) const {
    if (r < 0 || r >= view.v.taps || s < 0 || s >= view.w.taps) return 0;
    return w[k * view.w_k + c * view.w_c + t * view.u.w_step + r * view.v.w_step +
             s * view.w.w_step];
  }
};

/// Writes the header of a filter and its dense copy: a block for each filter.
__global__ void __launch_bounds__(toeplitz_packing_threads)
    describe_toeplitz(const __grid_constant__ ToeplitzPacking to) {
  __shared__ int most, flags;
  const int k = static_cast<int>(blockIdx.x);
  const FieldView& view = to.view;
  if (threadIdx.x == 0) most = flags = 0;
  __syncthreads();
  const int terms = view.c * view.u.taps * view.v.taps * view.w.taps;
  const auto each = [&](auto&& use) {
    for (int i = static_cast<int>(threadIdx.x); i < terms; i += toeplitz_packing_threads) {
      const int row = i / view.w.taps, plane = row / view.v.taps;
      use(i,
          to.tap(k, plane / view.u.taps, plane % view.u.taps, row % view.v.taps, i % view.w.taps));
    }
  };
  each([&](int i, float value) {
    to.dense[std::int64_t{k} * terms + i] = value;
    const int bits = magnitude_bits(value);
    if (bits < infinity_bits) atomicMax(&most, bits);
  });
  __syncthreads();
  const int exponent = scale_exponent(most);
  const float scale = power_of_two(exponent);
  each([&](int, float value) {
    if (value != 0 && fabsf(value * scale) < split_least) atomicOr(&flags, toeplitz_met_small);
  });
  __syncthreads();
  if (threadIdx.x == 0)
    *reinterpret_cast<ToeplitzHeader*>(to.packed + k * to.filter_bytes) = {power_of_two(-exponent),
                                                                           exponent, flags};
}

/// Writes the matrices: a thread for each row of a core matrix, eight taps.
template <int products>
__global__ void __launch_bounds__(toeplitz_packing_threads)
    pack_toeplitz(const __grid_constant__ ToeplitzPacking to) {
  const ToeplitzFilters& filters = to.filters;
  const bool rows = filters.mode == ToeplitzMode::rows,
             planes = filters.mode == ToeplitzMode::planes;
  const int of_part = filters.cores() * 8, of_filter = of_part * filters.parts();
  const std::int64_t all = std::int64_t{of_filter} * to.view.k;
  for (std::int64_t i = std::int64_t{blockIdx.x} * toeplitz_packing_threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * toeplitz_packing_threads) {
    const int k = static_cast<int>(i / of_filter), in_filter = static_cast<int>(i % of_filter);
    const int part = in_filter / of_part, in_part = in_filter % of_part;
    const int core = in_part / 8, dx = in_part % 8;
    const int column_part = part % filters.column_parts,
              row_part = part / filters.column_parts % filters.row_parts,
              plane = part / filters.column_parts / filters.row_parts;
    // Along the eight outputs, in planes the plane of the filter; and of the part: its row, and the
    // first tap.
    const int core_row = core / filters.row_cores(), in_row = core % filters.row_cores();
    const int c = planes ? plane : plane / to.view.u.taps;
    const int t = planes ? core_row - 7 : plane % to.view.u.taps;
    const int row = planes ? in_row / filters.chunks : rows ? core_row - 7 : 0;
    const int first = 8 * (planes || rows ? in_row % filters.chunks : core - 7) - dx;
    char* const packed = to.packed + k * to.filter_bytes;
    const float scale = power_of_two(reinterpret_cast<const ToeplitzHeader*>(packed)->exponent);
    alignas(16) __half high[8], low[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int s = first + j;
      const bool inside = t >= 0 && t < to.view.u.taps && row >= 0 && row < filters.rows &&
                          s >= 0 && s < filters.columns;
      const float value = inside ? scale * to.tap(k, c, t, row_part * filters.rows + row,
                                                  column_part * filters.columns + s)
                                 : 0;
      high[j] = __float2half_rn(value);
      low[j] = __float2half_rn((value - __half2float(high[j])) * split_raise);
    }
    // In planes a row's low halves follow its high ones.
    const int high_at =
        planes ? core_row * filters.row_bytes(products) + in_row * toeplitz_core_bytes + dx * 16
               : in_part * 16;
    char* const here = packed + toeplitz_header_bytes + part * to.part_bytes + high_at;
    *reinterpret_cast<uint4*>(here) = *reinterpret_cast<const uint4*>(high);
    if constexpr (products == 3)
      *reinterpret_cast<uint4*>(here + filters.half_bytes()) = *reinterpret_cast<const uint4*>(low);
  }
}

}  // namespace plumb::cuda
