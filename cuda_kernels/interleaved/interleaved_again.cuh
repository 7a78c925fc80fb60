// Outputs of interleaved.cu's kernels that are summed again as the definition says.
#pragma once

#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/interleaved/interleaved_params.cuh"

namespace plumb::cuda {

/// The taps of an output of backward data along one axis: the first one, and every up-th from there
/// on, meet a pixel of dy and those in front of it.
struct MetTaps {
  int first, pixel;

  __device__ MetTaps(int output, int before, int up)
      : first((output + before) % up), pixel((output + before) / up) {}
};

/// Recomputes backward data's output (n, k, p, q) as do_over() does a convolution's.
template <class Params>
__device__ void do_gradient_over(const Params& params, int n, int k, int p, int q, bool all) {
  using Stored = typename Params::Stored;
  const ConvShape<int>& conv = params.conv;
  Stored& output =
      params.y[n * conv.y_step.n + k * conv.y_step.c + p * conv.y_step.h + q * conv.y_step.w];
  if (const float written = convert<float>(output); written == written && !all) return;
  const MetTaps rows(p, params.before_h, params.up_h), columns(q, params.before_w, params.up_w);
  float sum = 0;
  for (int c = 0; c < conv.group_c; ++c)
    for (int r = rows.first, h = rows.pixel; r < conv.r.value(); r += params.up_h, --h) {
      if (static_cast<unsigned>(h) >= static_cast<unsigned>(conv.h)) continue;
      for (int s = columns.first, w = columns.pixel; s < conv.s.value(); s += params.up_w, --w)
        if (static_cast<unsigned>(w) < static_cast<unsigned>(conv.w))
          sum = fma(convert<float>(params.x[n * conv.x_step.n + c * conv.x_step.c +
                                            h * conv.x_step.h + w * conv.x_step.w]),
                    convert<float>(params.w[k * conv.w_step.k + c * conv.w_step.c +
                                            r * conv.w_step.r + s * conv.w_step.s]),
                    sum);
    }
  output = params.epilogue(sum, k);
}

/// Recomputes an output that the thread has written, where it is NaN or with `all` in any case.
template <class Params>
__device__ void sum_output_again(const Params& params, int n, int k, int p, int q, bool all) {
  if (params.up_h * params.up_w > 1)
    do_gradient_over(params, n, k, p, q, all);
  else
    do_over(params.conv, params.x, params.w, params.y, params.epilogue, n, k, p, q, all);
}

}  // namespace plumb::cuda
