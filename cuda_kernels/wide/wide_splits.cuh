// Where blocks have summed parts of the reduction, a second kernel adds the parts in their order.
#pragma once

#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/wide/wide_epilogue.cuh"

namespace plumb::cuda {

inline constexpr int wide_summing_threads = 256;

/// Eight neighbouring filters' sums of a pixel, and where their outputs lie.
template <class Params>
class WideEightSums {
 public:
  using Stored = typename Params::Stored;
  using Vector = WideVector<Stored>;

  /// `row` is that of the first filter, of packed filters.
  __device__ WideEightSums(const Params& params, int number, int row, int splits)
      : params_(params), pixel_(params.pixel(number)) {
    const int group = row / params.rows;
    of_group_ = row % params.rows, k_ = group * params.groups.filters + of_group_;
    y_ = params.y + params.y_of(pixel_);
    for (int split = 0; split < splits; ++split) {
      const auto* const from = reinterpret_cast<const float4*>(
          params.sums + (std::int64_t{split} * params.pixels + number) * params.all_rows + row);
      const float4 low = from[0], high = from[1];
      sums_[0] += low.x, sums_[1] += low.y, sums_[2] += low.z, sums_[3] += low.w;
      sums_[4] += high.x, sums_[5] += high.y, sums_[6] += high.z, sums_[7] += high.w;
    }
    if constexpr (Params::Arithmetic::splits_operands) {
      const int of_image = params.scales.of_image[pixel_.n];
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (of_group_ + j < params.groups.filters)
          sums_[j] = times_power_of_two(sums_[j], -of_image - params.scales.of_filter[k_ + j]);
    }
  }
  __device__ void write() {
    bool has_nan = false;
#pragma unroll
    for (const float sum : sums_) has_nan = has_nan || sum != sum;
    if (params_.access == WideAccess::filters && !(params_.repairs && has_nan))
      write_vectors();
    else
      write_elements();
  }

 private:
  __device__ void write_vectors() {
    const Epilogue<Stored>& epilogue = params_.epilogue;
#pragma unroll
    for (int first = 0; first < 8; first += Vector::count) {
      if (of_group_ + first >= params_.groups.filters) return;
      Vector vector{};
      if (epilogue.accumulate) vector = Vector::load(y_ + k_ + first);
#pragma unroll
      for (int i = 0; i < Vector::pairs; ++i) {
        const int j = first + 2 * i;
        float made[2] = {sums_[j], sums_[j + 1]};
        if (epilogue.accumulate) {
          const float2 old = vector.pair[i].floats();
          made[0] += old.x, made[1] += old.y;
        }
        vector.pair[i] = WidePair<Stored>::round(
            max_nan(made[0] + epilogue.template bias_of<float>(k_ + j), epilogue.least),
            max_nan(made[1] + epilogue.template bias_of<float>(k_ + j + 1), epilogue.least));
      }
      vector.store(y_ + k_ + first);
    }
  }
  __device__ void write_elements() {
#pragma unroll 1
    for (int j = 0; j < min(8, params_.groups.filters - of_group_); ++j) {
      float sum = sums_[0];
#pragma unroll
      for (int i = 0; i < 7; ++i) sums_[i] = sums_[i + 1];
      if (params_.repairs && sum != sum) sum = wide_sum(params_, pixel_, k_ + j);
      params_.epilogue.store(y_[(k_ + j) * params_.y_k], sum, k_ + j);
    }
  }

  const Params& params_;
  WidePixel pixel_;
  int of_group_, k_;  ///< the first filter, of its group and of all
  Stored* y_;
  float sums_[8] = {};
};

template <class Arithmetic, WideFault fault>
__global__ void __launch_bounds__(wide_summing_threads)
    sum_splits(const __grid_constant__ WideParams<Arithmetic> params, Divisor<int> row_vectors) {
  wait_for_kernel_before();
  const int splits = params.splits - (fault == WideFault::lost_split ? 1 : 0);
  const int all = params.pixels * row_vectors.value(),
            at_once = static_cast<int>(gridDim.x) * wide_summing_threads;
  for (int i = static_cast<int>(blockIdx.x) * wide_summing_threads + static_cast<int>(threadIdx.x);
       i < all; i += at_once) {
    const auto [number, vector] = row_vectors.divide(i);
    WideEightSums<WideParams<Arithmetic>>(params, number, 8 * vector, splits).write();
  }
}

}  // namespace plumb::cuda
