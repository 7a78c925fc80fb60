// One output of a convolution, summed tap by tap as its definition says.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {

/// Returns the sum over c, r, s where the filter's first tap lies at (first_h, first_w). `x`
/// addresses the image's first channel of the group, `w` the filter. Taps outside the image are
/// left out: they contribute nothing even where the filter is Inf or NaN.
template <class Accumulate, class Stored, class Index>
__device__ Accumulate direct_sum(const ConvShape<Index>& shape, const Stored* x, const Stored* w,
                                 Index first_h, Index first_w) {
  const Taps<Index> rows = taps_inside(first_h, shape.h, shape.r.value(), shape.dilation_h);
  const Taps<Index> columns = taps_inside(first_w, shape.w, shape.s.value(), shape.dilation_w);
  const Index x_tap = shape.dilation_w.value() * shape.x_step.w;
  Accumulate sum = 0;
  for (Index c = 0; c < shape.group_c; ++c) {
    for (Index r = rows.begin; r < rows.end; ++r) {
      Index x_offset = c * shape.x_step.c +
                       (first_h + r * shape.dilation_h.value()) * shape.x_step.h +
                       first_w * shape.x_step.w + columns.begin * x_tap;
      Index w_offset = c * shape.w_step.c + r * shape.w_step.r + columns.begin * shape.w_step.s;
      for (Index s = columns.begin; s < columns.end; ++s) {
        sum = fma(convert<Accumulate>(x[x_offset]), convert<Accumulate>(w[w_offset]), sum);
        x_offset += x_tap;
        w_offset += shape.w_step.s;
      }
    }
  }
  return sum;
}

/// Recomputes output (n, k, p, q), which the thread has written, by its definition if it is NaN,
/// or, with `whatever`, in any case. Zeros that stand for the padding, or fill up a step, may have
/// met Inf, and 0 * Inf is NaN. A NaN that comes from the data comes out again.
template <class Stored>
__device__ void do_over(const ConvShape<int>& shape, const Stored* x, const Stored* w, Stored* y,
                        const Epilogue<Stored>& epilogue, int n, int k, int p, int q,
                        bool whatever = false) {
  Stored& output =
      y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w];
  if (const float written = convert<float>(output); written == written && !whatever) return;
  const int group = shape.group_k.quotient(k);
  const float sum = direct_sum<float>(
      shape, x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c,
      w + k * shape.w_step.k, p * shape.stride_h - shape.top, q * shape.stride_w - shape.left);
  output = epilogue(sum, k);
}

}  // namespace plumb::cuda
