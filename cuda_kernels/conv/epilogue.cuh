// Every convolution ends a sum with the same epilogue: bias, activation, rounding to the stored
// type.
#pragma once

#include <type_traits>

#include "cuda_kernels/primitives/max_nan.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "plumb/algorithm.hpp"

namespace plumb::cuda {

template <class Stored>
struct Epilogue {
  const Stored* bias;  ///< K dense elements, or null
  float least;         ///< lower limit of the results: 0 for a ReLU, otherwise -Inf
  bool accumulate;     ///< whether y's old values are added, by kernels that do so

  explicit Epilogue(const ConvLaunch& launch)
      : bias(static_cast<const Stored*>(launch.bias)),
        least(launch.activation == Activation::relu ? 0.0f : -infinity<float>),
        accumulate(launch.accumulate) {}

  bool changes_nothing() const { return !bias && least < 0; }

  template <class Accumulate, class Index>
  __device__ Stored operator()(Accumulate sum, Index k) const {
    return finish(sum, bias_of<Accumulate>(k));
  }

  /// Kernels that finish many sums of one filter call bias_of() once and finish() for each sum. It
  /// is never -0, and so no sum with it is.
  template <class Accumulate, class Index>
  __device__ Accumulate bias_of(Index k) const {
    return bias ? convert<Accumulate>(bias[k]) + Accumulate{0} : Accumulate{0};
  }
  /// Writes an output, of a kernel that accumulates: the bias is added first, then what y holds.
  template <class Accumulate, class Index>
  __device__ void store(Stored& y, Accumulate sum, Index k) const {
    sum += bias_of<Accumulate>(k);
    y = finish(sum, accumulate ? convert<Accumulate>(y) : Accumulate{0});
  }
  template <class Accumulate>
  __device__ Stored finish(Accumulate sum, Accumulate bias_of_filter) const {
    return rounded(max_nan(sum + bias_of_filter, static_cast<Accumulate>(least)));
  }

 private:
  /// Zeros have no sign: what is summed in another order may come from the other side.
  template <class Accumulate>
  __device__ static Stored rounded(Accumulate value) {
    const Stored stored = convert<Stored>(value);
    if constexpr (std::is_same_v<Stored, Accumulate>)
      return stored;
    else
      return convert<Stored>(convert<ComputeType<Stored>>(stored) + ComputeType<Stored>{0});
  }
};

}  // namespace plumb::cuda
