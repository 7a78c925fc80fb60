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

/// Neighbouring outputs of a row, of which `written` are in y.
struct ImagePlace {
  int n, k, p, q, written;
};

/// Whether sums are outputs as they are.
template <class Stored>
__device__ bool is_plain(const Epilogue<Stored>& epilogue) {
  return !epilogue.bias && epilogue.least < 0 && !epilogue.accumulate;
}

/// Finishes sums of neighbouring columns by neighbouring channels of an image, the first of which
/// lies at `to`. Returns false where one was not finite: outputs are then written, by their
/// definition.
template <class Stored, class Scalar, int columns, int width>
__device__ __forceinline__ bool finish_image(const DeepShape<int>& shape, const Stored* x,
                                             const Stored* w, Scalar (&sums)[columns][width],
                                             const ImagePlace& at, Stored* to,
                                             const Epilogue<Stored>& epilogue) {
  const int step = shape.columns.y_step;
  Scalar never = 0;  // a NaN, and an Inf too, makes this a NaN
#pragma unroll
  for (int i = 0; i < columns; ++i)
#pragma unroll
    for (int e = 0; e < width; ++e) never = fma(sums[i][e], Scalar{0}, never);
  if (never != 0) {
    for (int i = 0; i < at.written; ++i)
      for (int e = 0; e < width; ++e)
        epilogue.store(to[i * step + e * shape.y_k],
                       sum_of_image(shape, x, w, at.n, at.k + e, at.p, at.q + i), at.k + e);
    return false;
  }
  if (!is_plain(epilogue)) {
    Scalar bias[width];
#pragma unroll
    for (int e = 0; e < width; ++e) bias[e] = epilogue.template bias_of<Scalar>(at.k + e);
    finish_sums(sums, bias, to, step, at.written, epilogue);
  }
  return true;
}

}  // namespace plumb::cuda::depthwise
