// What becomes of finished sums: bias, what y holds, ReLU.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
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

/// Whether sums are outputs as they are.
template <class Stored>
__device__ bool is_plain(const Epilogue<Stored>& epilogue) {
  return !epilogue.bias && epilogue.least < 0 && !epilogue.accumulate;
}

}  // namespace plumb::cuda::depthwise
