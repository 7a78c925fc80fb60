// What every convolution does to a finished sum: bias, activation, rounding to the stored type.
#pragma once

#include "cuda_kernels/common/scalar.cuh"
#include "plumb/algorithm.hpp"

namespace plumb::cuda {

template <class Stored>
struct Epilogue {
  const Stored* bias;  ///< K dense elements, or null
  bool relu;

  explicit Epilogue(const ConvLaunch& launch)
      : bias(static_cast<const Stored*>(launch.bias)),
        relu(launch.activation == Activation::relu) {}

  template <class Accumulate, class Index>
  __device__ Stored operator()(Accumulate sum, Index k) const {
    return finish(sum, bias_of<Accumulate>(k));
  }

  /// The two halves of it, for kernels that finish many sums of one filter.
  template <class Accumulate, class Index>
  __device__ Accumulate bias_of(Index k) const {
    return bias ? convert<Accumulate>(bias[k]) : Accumulate{0};
  }
  template <class Accumulate>
  __device__ Stored finish(Accumulate sum, Accumulate bias_of_filter) const {
    if (bias) sum += bias_of_filter;
    if (relu && sum < 0) sum = 0;  // this way round, NaN stays NaN
    return convert<Stored>(sum);
  }
};

}  // namespace plumb::cuda
