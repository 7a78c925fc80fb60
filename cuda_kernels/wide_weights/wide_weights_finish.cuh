// The second kernel adds the splits in their order, and writes dw.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"
#include "cuda_kernels/wide_weights/wide_weights_dw.cuh"
#include "cuda_kernels/wide_weights/wide_weights_params.cuh"

namespace plumb::cuda {

struct WideWeightsAdding {
  WeightsPlan plan;  ///< sizes and strides alone
  WeightsPlaces places;
  WeightsAccess access;
  int rows, row_channels, taps, splits;  ///< row_channels: with what fills a block up
  int chunk_channels, chunk_taps;        ///< of a filter, that a block adds
  Divisor<int> channel_chunks, tap_chunks, filters, chunk_vectors;
  std::int64_t split_sums;  ///< from a split to the next
  const float* sums;
  const int *x_exponent, *dy_exponent;  ///< null where there are no scales
  bool accumulate, repairs;
  bool repairs_infinite;  ///< infinite sums too, which high halves may have where values have not

  __device__ int columns() const { return taps * row_channels; }
};

/// Sums of a filter that a block adds, where so many threads share each.
template <int chains>
inline constexpr int added_columns = 4 * weights::finish_threads / chains;

/// Whether a sum is to be made anew by the definition.
__device__ inline bool is_doubtful(const WideWeightsAdding& of, float sum) {
  return of.repairs_infinite ? !(fabsf(sum) < __int_as_float(infinity_bits)) : sum != sum;
}
__device__ inline bool is_doubtful(const WideWeightsAdding& of, const float4& sum) {
  return is_doubtful(of, sum.x) | is_doubtful(of, sum.y) | is_doubtful(of, sum.z) |
         is_doubtful(of, sum.w);
}

__device__ inline void add_to(float4& sum, const float4& part) {
  sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
}

/// What a block adds: channels of a filter under some taps, four of them side by side a thread. A
/// row of the product's columns has all channels under a tap.
struct AddedChunk {
  int k, group, of_group, first_channel, first_tap;

  __device__ AddedChunk(const WideWeightsAdding& of, int block) {
    const auto [above_channels, of_channels] = of.channel_chunks.divide(block);
    const auto [filter, of_taps] = of.tap_chunks.divide(above_channels);
    const auto [of_all, in_group] = of.filters.divide(filter);
    k = filter, group = of_all, of_group = in_group;
    first_channel = of_channels * of.chunk_channels, first_tap = of_taps * of.chunk_taps;
  }
};

/// Four neighbouring channels under a tap.
struct AddedVector {
  int tap, channel;
  bool is_there;

  __device__ AddedVector(const WideWeightsAdding& of, const AddedChunk& chunk, int number) {
    const auto [of_taps, vector] = of.chunk_vectors.divide(number);
    tap = chunk.first_tap + of_taps, channel = chunk.first_channel + 4 * vector;
    is_there = of_taps < of.chunk_taps && tap < of.taps && channel < of.row_channels;
  }
};

/// Adds the chains of a vector by a tree. Each chain has `every` vectors.
template <int chains>
__device__ float4 add_chains(const float4* sums, int every) {
  float4 sum[chains];
#pragma unroll
  for (int chain = 0; chain < chains; ++chain) sum[chain] = sums[chain * every];
#pragma unroll
  for (int half = chains / 2; half > 0; half /= 2)
#pragma unroll
    for (int chain = 0; chain < half; ++chain) add_to(sum[chain], sum[chain + half]);
  return sum[0];
}

/// Sums anew, by the definition, what came out NaN of a block's sums.
template <class Stored>
__device__ void repair_sums(const WideWeightsAdding& of, const AddedChunk& chunk, const Stored* x,
                            const Stored* dy, int columns, float* sums) {
  __shared__ double exact[weights::finish_threads];
#pragma unroll 1
  for (int i = 0; i < columns; ++i) {
    if (!is_doubtful(of, sums[i])) continue;
    const AddedVector vector(of, chunk, i / 4);
    const WideWeight wrong(of.places, chunk.of_group, vector.tap, vector.channel + i % 4);
    if (!wrong.is_there) continue;
    exact[threadIdx.x] =
        weights::definition<float>(of.plan, x, dy, wrong.element(of.plan.sizes, chunk.k));
    weights::add_rows(exact, 1, weights::finish_threads);
    if (threadIdx.x == 0) sums[i] = static_cast<float>(exact[0]);
    __syncthreads();
  }
}

/// Stores a block's sums where a filter's channels lie with all their taps side by side: `staged`
/// gets them in that order.
template <class Stored>
__device__ void store_lines(const WideWeightsAdding& of, const AddedChunk& chunk,
                            const AddedVector& vector, const float4& sum, bool is_there,
                            float* staged, Stored* dw) {
  __syncthreads();  // what was there has been read
  if (is_there) {
    float* const to = staged + (vector.channel - chunk.first_channel) * of.taps + vector.tap;
    to[0] = sum.x, to[of.taps] = sum.y, to[2 * of.taps] = sum.z, to[3 * of.taps] = sum.w;
  }
  __syncthreads();
  const int channels = min(of.chunk_channels, of.places.groups.channels - chunk.first_channel);
  Stored* const to = dw + chunk.k * of.places.strides.w_k + chunk.first_channel * of.taps;
  for (int i = static_cast<int>(threadIdx.x); i < channels * of.taps; i += weights::finish_threads)
    store_weight(to[i], staged[i], of.accumulate);
}

/// A block adds the splits of some columns of a filter. A thread loads four columns of each split
/// of its chain; then a thread adds the chains of four columns by a tree, and writes them.
template <class Stored, WideWeightsFault fault, int chains>
__global__ void __launch_bounds__(weights::finish_threads)
    add_wide_weights(const __grid_constant__ WideWeightsAdding of, const Stored* x,
                     const Stored* dy, Stored* dw) {
  constexpr int columns = added_columns<chains>, vectors = columns / 4;
  __shared__ float4 loaded[weights::finish_threads];
  wait_for_kernel_before();
  const int thread = static_cast<int>(threadIdx.x), chain = thread / vectors;
  const AddedChunk chunk(of, static_cast<int>(blockIdx.x));
  const AddedVector vector(of, chunk, thread % vectors);
  const int splits = of.splits - (fault == WideWeightsFault::lost_split ? 1 : 0);
  float4 sum{};
  if (vector.is_there) {
    const float* const from =
        of.sums + (std::int64_t{chunk.group} * of.rows + chunk.of_group) * of.columns() +
        vector.tap * of.row_channels + vector.channel;
#pragma unroll 4
    for (int split = chain; split < splits; split += chains)
      add_to(sum, *reinterpret_cast<const float4*>(from + split * of.split_sums));
  }
  if constexpr (chains > 1) {
    loaded[thread] = sum;
    __syncthreads();
    if (chain == 0) sum = add_chains<chains>(loaded + thread, vectors);
  }
  const bool is_there = vector.is_there && chain == 0;
  if (of.x_exponent) {
    const int exponent = -*of.x_exponent - *of.dy_exponent;
    for (float* const one : {&sum.x, &sum.y, &sum.z, &sum.w})
      *one = times_power_of_two(*one, exponent);
  }
  // Chains that are not added belong to sums of others.
  if (of.repairs && __syncthreads_or(is_there && is_doubtful(of, sum))) {
    if (chain == 0) loaded[thread] = sum;
    __syncthreads();
    repair_sums(of, chunk, x, dy, columns, &loaded[0].x);
    if (chain == 0) sum = loaded[thread];
  }
  if (of.access == WeightsAccess::lines)
    return store_lines(of, chunk, vector, sum, is_there, &loaded[0].x, dw);
  if (!is_there) return;
  const WideWeight first(of.places, chunk.of_group, vector.tap, vector.channel);
  if (of.access == WeightsAccess::vectors) {
    if (first.is_there)
      store_weights(dw + first.at(of.places.strides, chunk.k), sum, of.accumulate);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    const WideWeight weight(of.places, chunk.of_group, vector.tap, vector.channel + i);
    if (weight.is_there)
      store_weight(dw[weight.at(of.places.strides, chunk.k)], sum.x, of.accumulate);
    sum = {sum.y, sum.z, sum.w, 0};
  }
}

}  // namespace plumb::cuda
