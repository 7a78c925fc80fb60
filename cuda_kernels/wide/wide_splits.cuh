// Where blocks have summed parts of the reduction, a second kernel adds the parts in their order.
#pragma once

#include "cuda_kernels/wide/wide_epilogue.cuh"

namespace plumb::cuda {

inline constexpr int wide_summing_threads = 256;

/// A thread adds eight neighbouring filters' sums of a pixel.
template <class Stored, WideFault fault>
__global__ void __launch_bounds__(wide_summing_threads)
    sum_splits(const __grid_constant__ WideParams<Stored> params, Divisor<int> filter_vectors) {
  const std::int64_t all = std::int64_t{params.pixels} * filter_vectors.value();
  const int splits = params.splits - (fault == WideFault::lost_split ? 1 : 0);
  for (std::int64_t i = std::int64_t{blockIdx.x} * wide_summing_threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * wide_summing_threads) {
    const int number = static_cast<int>(i / filter_vectors.value()),
              k = 8 * static_cast<int>(i % filter_vectors.value());
    float sums[8] = {};
    for (int split = 0; split < splits; ++split) {
      const auto* const from = reinterpret_cast<const float4*>(
          params.sums + (std::int64_t{split} * params.pixels + number) * params.rows + k);
      const float4 low = from[0], high = from[1];
      sums[0] += low.x, sums[1] += low.y, sums[2] += low.z, sums[3] += low.w;
      sums[4] += high.x, sums[5] += high.y, sums[6] += high.z, sums[7] += high.w;
    }
    const WidePixel pixel = params.pixel(number);
    Stored* const y = params.y + params.y_of(pixel);
    const Epilogue<Stored>& epilogue = params.epilogue;
    WideEight<Stored> eight{};
    if (params.vectors && epilogue.accumulate)
      eight = *reinterpret_cast<const WideEight<Stored>*>(y + k);
    bool repairs = false;
#pragma unroll
    for (int j = 0; j < 8; ++j) repairs = repairs || sums[j] != sums[j];
    if (params.vectors && !(params.repairs && repairs)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 old = eight.pair(j).floats();
        float made[2] = {sums[2 * j], sums[2 * j + 1]};
        if (epilogue.accumulate) made[0] += old.x, made[1] += old.y;
        eight.set_pair(
            j, WidePair<Stored>::round(
                   max_nan(made[0] + epilogue.template bias_of<float>(k + 2 * j), epilogue.least),
                   max_nan(made[1] + epilogue.template bias_of<float>(k + 2 * j + 1),
                           epilogue.least)));
      }
      *reinterpret_cast<WideEight<Stored>*>(y + k) = eight;
      continue;
    }
#pragma unroll 1
    for (int j = 0; j < min(8, params.k - k); ++j) {
      float sum = sums[0];
#pragma unroll
      for (int i = 0; i < 7; ++i) sums[i] = sums[i + 1];
      if (params.repairs && sum != sum) sum = wide_sum(params, pixel, k + j);
      epilogue.store(y[(k + j) * params.y_k], sum, k + j);
    }
  }
}

}  // namespace plumb::cuda
