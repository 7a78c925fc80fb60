// A lane's sums of a part of a warp's outputs, and what makes outputs of them.
#pragma once

#include "cuda_kernels/primitives/max_nan.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// Fragments of eight filters `j`, of each the rows lane / 4 and eighth below it (`half`), of which
/// the lane has two neighbouring filters `i`. What a launch does not have (scales, a bias, a ReLU)
/// is left out by one branch for all of them: of layers with few terms the instructions for each
/// output take most of the time.
template <class Params>
class WideFragments {
 public:
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;
  static constexpr int columns =
      swizzle_row_bytes / static_cast<int>(sizeof(Stored));  ///< filters of a part
  static constexpr int count = columns / 2;                  ///< sums of a lane

  /// The part's first filter is the `k`th of its group, whose first one is `first_filter`.
  __device__ WideFragments(const Params& params, Sum* sums, int lane, int first_filter, int k)
      : params_(params), sums_(sums), lane_(lane), first_filter_(first_filter), k_(k) {}

  /// Calls `f(first, second, j, half)` for each two of neighbouring filters.
  template <class F>
  __device__ void for_pairs(const F& f) const {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        f(sums_[4 * j + 2 * half], sums_[4 * j + 2 * half + 1], j, half);
  }
  template <class F>
  __device__ void for_each(const F& f) const {
    for_pairs([&](Sum& one, Sum& two, int, int) { f(one), f(two); });
  }
  /// Scales sums of halves by the exponents of their filters and of the images of the lane's rows.
  __device__ void undo_scales(const int (&of_images)[2]) const {
    const float least = params_.scales.least_sum;
    for_filters([&](int filter) { return params_.scales.of_filter[filter]; },
                [&](Sum& sum, int half, int scale) {
                  sum = WideScale(of_images[half] + scale).undo(sum, least);
                });
  }
  __device__ void add_bias() const {
    const Stored* const bias = params_.epilogue.bias;
    if (!bias) return;
    for_filters([&](int filter) { return convert<Sum>(bias[filter]); },
                [](Sum& sum, int, Sum value) { sum += value; });
  }
  /// Applies the ReLU.
  __device__ void limit() const {
    if (params_.epilogue.least == 0) for_each([](Sum& sum) { sum = max_nan(sum, Sum{0}); });
  }

 private:
  /// Calls `use(sum, half, value)` with the value that `value_of` has of each sum's filter, among
  /// all.
  template <class ValueOf, class Use>
  __device__ void for_filters(const ValueOf& value_of, const Use& use) const {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int filter = k_ + 8 * j + lane_ % 4 * 2 + i;
        if (filter >= params_.groups.filters) continue;
        const auto value = value_of(first_filter_ + filter);
#pragma unroll
        for (int half = 0; half < 2; ++half) use(sums_[4 * j + 2 * half + i], half, value);
      }
  }

  const Params& params_;
  Sum* sums_;
  int lane_, first_filter_, k_;
};

}  // namespace plumb::cuda
