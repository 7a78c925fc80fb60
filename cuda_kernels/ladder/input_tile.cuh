// A block loads a tile of input to shared memory, and sums from there.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/ladder/input_tile.hpp"

namespace plumb::cuda {

/// Loads the part of `channel` that begins at (first_h, first_w), with zeros outside the image. All
/// `tile` x `tile` threads of a block call it.
template <int tile>
__device__ void load_input(const ConvShape<int>& shape, const InputTile& input,
                           const float* channel, int first_h, int first_w, float* to) {
  for (int row = static_cast<int>(threadIdx.y); row < input.rows; row += tile) {
    const int h = first_h + row;
    const bool row_inside = h >= 0 && h < shape.h;
    for (int column = static_cast<int>(threadIdx.x); column < input.columns; column += tile) {
      const int w = first_w + column;
      const bool inside = row_inside && w >= 0 && w < shape.w;
      to[row * input.pitch + column] =
          inside ? channel[h * shape.x_step.h + w * shape.x_step.w] : 0;
    }
  }
}

/// The constant stands for a size of the filter that is known at launch only.
inline constexpr int any_taps = 0;

/// Returns `sum` plus the terms of one channel. `x` is where the output's first tap lies in shared
/// memory; `filter` points to R S consecutive taps in any memory. Where `taps` is not any_taps the
/// filter has that many rows and columns and no dilation, and both loops are unrolled.
template <int taps>
__device__ float add_channel(float sum, const ConvShape<int>& shape, int pitch, const float* x,
                             const float* filter) {
  if constexpr (taps == any_taps) {
    const int row_step = shape.dilation_h.value() * pitch, column_step = shape.dilation_w.value();
    for (int r = 0; r < shape.r.value(); ++r)
      for (int s = 0; s < shape.s.value(); ++s)
        sum = fma(x[r * row_step + s * column_step], filter[r * shape.s.value() + s], sum);
  } else {
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int s = 0; s < taps; ++s) sum = fma(x[r * pitch + s], filter[r * taps + s], sum);
  }
  return sum;
}

}  // namespace plumb::cuda
