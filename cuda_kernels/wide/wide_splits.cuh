// Where blocks have summed parts of the reduction, a second kernel adds the parts in their order.
#pragma once

#include "cuda_kernels/wide/wide_epilogue.cuh"

namespace plumb::cuda {

inline constexpr int wide_summing_threads = 256;

/// A thread adds eight neighbouring filters' sums of a pixel.
template <class Stored, WideFault fault>
__global__ void __launch_bounds__(wide_summing_threads)
    sum_splits(const __grid_constant__ WideParams<Stored> params, Divisor<int> eights) {
  const std::int64_t all = std::int64_t{params.pixels} * eights.value();
  const int splits = params.splits - (fault == WideFault::lost_split ? 1 : 0);
  for (std::int64_t i = std::int64_t{blockIdx.x} * wide_summing_threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * wide_summing_threads) {
    const int number = static_cast<int>(i / eights.value()),
              k = 8 * static_cast<int>(i % eights.value());
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
    WideEight<Stored> eight{};
    if (params.vectors && params.epilogue.accumulate) eight = WideEight<Stored>::read(y + k);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (k + j >= params.k) break;
      Stored* const to = y + (k + j) * params.y_k;
      float sum = sums[j];
      if (params.repairs && sum != sum) sum = wide_sum(params, pixel, k + j);
      if (params.epilogue.accumulate) sum += convert<float>(params.vectors ? eight.first() : *to);
      const Stored made = params.epilogue(sum, k + j);
      if (params.vectors)
        eight.rotate(made);
      else
        *to = made;
    }
    if (params.vectors) eight.write(y + k);
  }
}

}  // namespace plumb::cuda
