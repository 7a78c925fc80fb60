// The second kernel adds the splits in their order, and writes dw.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"
#include "cuda_kernels/wide_weights/wide_weights_params.cuh"

namespace plumb::cuda {

struct WideWeightsAdding {
  WeightsPlan plan;  ///< sizes and strides alone
  WideFold fold;
  WideGroups groups;
  int taps[3];  ///< of the product: s, r, t
  int rows, columns, channel_blocks, splits;
  Divisor<int> column_chunks;  ///< that blocks take of a filter
  std::int64_t split_sums;     ///< from a split to the next
  const float* sums;
  const int *x_exponent, *dy_exponent;  ///< null where there are no scales
  bool accumulate, repairs;
};

/// Where a column of a filter's sums belongs.
struct WideWeight {
  bool is_there;
  int c, tap[3];

  __device__ WideWeight(const WideWeightsAdding& of, int of_group, int column) {
    const int block = column / wide_weights_block;
    int number = block / of.channel_blocks;
    const int channel =
        block % of.channel_blocks * wide_weights_block + column % wide_weights_block;
    const int owner = channel / of.groups.own_channels;
    is_there = column < of.columns && channel < of.groups.channels &&
               owner == of_group / of.groups.own_filters;
    const WideTerm term = of.fold.term(channel - owner * of.groups.own_channels);
    c = term.channel;
    tap[0] = number % of.taps[0], number /= of.taps[0];
    tap[1] = number % of.taps[1], tap[2] = number / of.taps[1];
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (of.fold.folds(i)) tap[i] = term.tap[i];
  }
  /// Its number in K, C/G, T, R, S.
  __device__ std::int64_t element(const WeightsSizes& sizes, int k) const {
    return (((k * sizes.group_c + c) * sizes.d.taps + tap[2]) * sizes.h.taps + tap[1]) *
               sizes.w.taps +
           tap[0];
  }
};

/// A block adds the splits of some columns of a filter, each in `chains` and a tree.
template <class Stored, WideWeightsFault fault, int chains>
__global__ void __launch_bounds__(weights::finish_threads)
    add_wide_weights(const __grid_constant__ WideWeightsAdding of, const Stored* x,
                     const Stored* dy, Stored* dw) {
  constexpr int columns = weights::finish_threads / chains;
  __shared__ float sums[weights::finish_threads];
  __shared__ double exact[weights::finish_threads];
  wait_for_kernel_before();
  const int thread = static_cast<int>(threadIdx.x), chain = thread / columns;
  const auto [k, chunk] = of.column_chunks.divide(static_cast<int>(blockIdx.x));
  const int group = k / of.groups.filters, of_group = k % of.groups.filters;
  const int first = chunk * columns;
  const WideWeight weight(of, of_group, first + thread % columns);
  const int splits = of.splits - (fault == WideWeightsFault::lost_split ? 1 : 0);
  float sum = 0;
  if (weight.is_there) {
    const float* const from = of.sums + (std::int64_t{group} * of.rows + of_group) * of.columns +
                              first + thread % columns;
    for (int split = chain; split < splits; split += chains) sum += from[split * of.split_sums];
  }
  sums[thread] = sum;
  weights::add_rows(sums, columns, chains);
  sum = sums[thread % columns];
  if (of.x_exponent) sum = times_power_of_two(sum, -*of.x_exponent - *of.dy_exponent);
  if (of.repairs && __syncthreads_or(sum != sum))
    for (int i = 0; i < columns; ++i) {
      if (sums[i] == sums[i]) continue;
      const WideWeight wrong(of, of_group, first + i);
      exact[thread] = weights::definition<float>(of.plan, x, dy, wrong.element(of.plan.sizes, k));
      weights::add_rows(exact, 1, weights::finish_threads);
      if (thread == i) sum = static_cast<float>(exact[0]);
      __syncthreads();
    }
  if (chain > 0 || !weight.is_there) return;
  const WeightsStrides& at = of.plan.strides;
  Stored& to = dw[k * at.w_k + weight.c * at.w_c + weight.tap[2] * at.w_t + weight.tap[1] * at.w_r +
                  weight.tap[0] * at.w_s];
  if (of.accumulate) sum += convert<float>(to);
  to = convert<Stored>(sum);
}

}  // namespace plumb::cuda
