// What the depthwise kernels are told, and what both do with taps and outputs.
#pragma once

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/depthwise/depthwise.hpp"

namespace plumb::cuda::depthwise {

template <class Stored>
using Sum = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

struct DepthwiseParams {
  DeepShape<int> shape;
  Divisor<int> rows_dilation{};
  Divisor<int> lanes_c{}, lanes_w{}, lanes_u{};  ///< threads of a block
  Divisor<int> tiles_c{}, tiles_w{}, tiles_u{};  ///< blocks
  Divisor<int> row_taps{};  ///< of channels, the weights of a channel in a stage
  Divisor<int> rows{};      ///< of planes, of the input
  int planes = 0, all_planes = 0, columns = 0, pitch = 0, filter_bytes = 0, row_bits = 0;
};

/// Returns the tap along the rows by which the row `i` of the input, counted from the first under
/// the first output, adds to the output row `j`, or -1.
__device__ inline int tap_of(const DepthwiseParams& params, int i, int j) {
  const int beyond = i - j * params.shape.rows.stride;
  if (beyond < 0) return -1;
  const auto [tap, rest] = params.rows_dilation.divide(beyond);
  return rest == 0 && tap < params.shape.rows.taps ? tap : -1;
}

/// Returns the sum of an output by its definition. Zeros that stand for a padding may have met an
/// Inf, which gives a NaN; a NaN that comes from the data comes out again.
template <class Stored>
__device__ __noinline__ Sum<Stored> defined_sum(const DepthwiseParams& params, const Stored* x,
                                                const Stored* w, int n, int k, int z, int p,
                                                int q) {
  const DeepShape<int>& shape = params.shape;
  return deep_sum<Sum<Stored>>(shape, x + (n * shape.x_n + shape.group_k.quotient(k) * shape.x_c),
                               w + k * shape.w_k, z, p, q);
}

}  // namespace plumb::cuda::depthwise
