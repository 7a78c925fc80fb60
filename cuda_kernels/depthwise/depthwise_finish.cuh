// What becomes of finished sums: bias, what y holds, ReLU; and sums that are made anew.
#pragma once

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_rounded.cuh"
#include "cuda_kernels/primitives/max_nan.cuh"

namespace plumb::cuda::depthwise {

/// Finishes the sums of neighbouring columns, `step` elements apart in y. `bias` is that of each of
/// their channels; `written` of the columns are in y.
template <class Stored, class Scalar, int columns, int width>
__device__ __forceinline__ void finish_sums(Scalar (&sums)[columns][width],
                                            const Scalar (&bias)[width], const Stored* from,
                                            int step, int written,
                                            const Epilogue<Stored>& epilogue) {
#pragma unroll
  for (int i = 0; i < columns; ++i)
#pragma unroll
    for (int e = 0; e < width; ++e) sums[i][e] += bias[e];
  if (epilogue.accumulate) {
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      if (i >= written) continue;
      const auto old = read_channels<Stored, width>(from + i * step);
#pragma unroll
      for (int e = 0; e < width; ++e) sums[i][e] += convert<Scalar>(old.of[e]);
    }
  }
#pragma unroll
  for (int i = 0; i < columns; ++i)
#pragma unroll
    for (int e = 0; e < width; ++e)
      sums[i][e] = max_nan(sums[i][e], static_cast<Scalar>(epilogue.least));
}

/// Returns a sum of an image, of one filter a channel, by its definition: zeros of the padding may
/// have met an Inf, which gives a NaN.
template <class Stored>
__device__ __noinline__ Sum<Stored> sum_of_image(const DeepShape<int>& shape, const Stored* x,
                                                 const Stored* w, int n, int k, int p, int q) {
  return deep_sum<Sum<Stored>>(shape, x + (n * shape.x_n + k * shape.x_c), w + k * shape.w_k, 0, p,
                               q);
}

/// Whether sums are outputs as they are.
template <class Stored>
__device__ bool is_plain(const Epilogue<Stored>& epilogue) {
  return !epilogue.bias && epilogue.least < 0 && !epilogue.accumulate;
}

}  // namespace plumb::cuda::depthwise
