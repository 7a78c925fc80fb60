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
  Divisor<int> taps[2];  ///< of the product: s, r
  Divisor<int> block, channel_blocks, own_channels, own_filters;
  int rows, columns, splits;
  Divisor<int> column_chunks;  ///< that blocks take of a filter
  std::int64_t split_sums;     ///< from a split to the next
  const float* sums;
  const int *x_exponent, *dy_exponent;  ///< null where there are no scales
  bool accumulate, repairs;
  bool repairs_infinite;  ///< infinite sums too, which high halves may have where values have not
};

/// Where a column of a filter's sums belongs.
struct WideWeight {
  bool is_there;
  int c, tap[3];

  __device__ WideWeight(const WideWeightsAdding& of, int of_group, int column) {
    const auto [of_columns, in_block] = of.block.divide(column);
    const auto [number, block] = of.channel_blocks.divide(of_columns);
    const int channel = block * of.block.value() + in_block;
    const auto [owner, own] = of.own_channels.divide(channel);
    is_there = column < of.columns && channel < of.groups.channels &&
               owner == of.own_filters.quotient(of_group);
    const WideTerm term = of.fold.term(own);
    c = term.channel;
    const auto [line, s] = of.taps[0].divide(number);
    const auto [plane, r] = of.taps[1].divide(line);
    tap[0] = s, tap[1] = r, tap[2] = plane;
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

/// Columns of a filter that a block adds, where so many threads share each.
template <int chains>
inline constexpr int added_columns = 4 * weights::finish_threads / chains;

/// Whether a sum is to be made anew by the definition.
__device__ inline bool is_doubtful(const WideWeightsAdding& of, float sum) {
  return of.repairs_infinite ? !(fabsf(sum) < __int_as_float(infinity_bits)) : sum != sum;
}

/// Adds the chains of a column by a tree. Each chain has `every` columns.
template <int chains>
__device__ float add_chains(const float* sums, int every) {
  float sum[chains];
#pragma unroll
  for (int chain = 0; chain < chains; ++chain) sum[chain] = sums[chain * every];
#pragma unroll
  for (int half = chains / 2; half > 0; half /= 2)
#pragma unroll
    for (int chain = 0; chain < half; ++chain) sum[chain] += sum[chain + half];
  return sum[0];
}

/// Sums anew, by the definition, what came out NaN of a block's columns.
template <class Stored>
__device__ void repair_columns(const WideWeightsAdding& of, const Stored* x, const Stored* dy,
                               int k, int of_group, int first, int columns, float* sums) {
  __shared__ double exact[weights::finish_threads];
#pragma unroll 1
  for (int i = 0; i < columns; ++i) {
    if (!is_doubtful(of, sums[i])) continue;
    const WideWeight wrong(of, of_group, first + i);
    if (!wrong.is_there) continue;
    exact[threadIdx.x] =
        weights::definition<float>(of.plan, x, dy, wrong.element(of.plan.sizes, k));
    weights::add_rows(exact, 1, weights::finish_threads);
    if (threadIdx.x == 0) sums[i] = static_cast<float>(exact[0]);
    __syncthreads();
  }
}

/// A block adds the splits of some columns of a filter. A thread loads four columns of each split
/// of its chain; then a thread adds the chains of a column by a tree, and writes it.
template <class Stored, WideWeightsFault fault, int chains>
__global__ void __launch_bounds__(weights::finish_threads)
    add_wide_weights(const __grid_constant__ WideWeightsAdding of, const Stored* x,
                     const Stored* dy, Stored* dw) {
  constexpr int columns = added_columns<chains>;
  __shared__ float4 loaded[weights::finish_threads];
  float* const sums = &loaded[0].x;
  wait_for_kernel_before();
  const int thread = static_cast<int>(threadIdx.x), chain = thread / (columns / 4);
  const auto [k, chunk] = of.column_chunks.divide(static_cast<int>(blockIdx.x));
  const int group = k / of.groups.filters, of_group = k % of.groups.filters;
  const int first = chunk * columns, column = first + 4 * (thread % (columns / 4));
  const int splits = of.splits - (fault == WideWeightsFault::lost_split ? 1 : 0);
  float4 sum{};
  if (column < of.columns) {
    const float* const from =
        of.sums + (std::int64_t{group} * of.rows + of_group) * of.columns + column;
#pragma unroll 4
    for (int split = chain; split < splits; split += chains) {
      const float4 part = *reinterpret_cast<const float4*>(from + split * of.split_sums);
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
  }
  loaded[thread] = sum;
  __syncthreads();
  const int exponent = of.x_exponent ? -*of.x_exponent - *of.dy_exponent : 0;
  bool wrong = false;
  for (int i = thread; i < columns; i += weights::finish_threads) {
    // What others of these threads read lies in other columns.
    sums[i] = times_power_of_two(add_chains<chains>(sums + i, columns), exponent);
    wrong = wrong || is_doubtful(of, sums[i]);
  }
  if (of.repairs && __syncthreads_or(wrong))
    repair_columns(of, x, dy, k, of_group, first, columns, sums);
  const WeightsStrides& at = of.plan.strides;
  for (int i = thread; i < columns; i += weights::finish_threads) {
    const WideWeight weight(of, of_group, first + i);
    if (!weight.is_there) continue;
    Stored& to = dw[k * at.w_k + weight.c * at.w_c + weight.tap[2] * at.w_t +
                    weight.tap[1] * at.w_r + weight.tap[0] * at.w_s];
    to = convert<Stored>(of.accumulate ? sums[i] + convert<float>(to) : sums[i]);
  }
}

}  // namespace plumb::cuda
