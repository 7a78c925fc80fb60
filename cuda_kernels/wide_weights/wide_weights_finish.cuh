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
  Divisor<int> channel_chunks, tap_chunks, filter_chunks, chunk_vectors;
  std::int64_t split_sums;  ///< from a split to the next
  const float* sums;
  const int *x_scale, *dy_scale;  ///< words of WideScale; null where there are no scales
  float least_sum;                ///< smaller ones of small operands are made anew
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

/// What a block adds: channels under some taps, four of them side by side a thread, of some filters
/// of a group. A row of the product's columns has all channels under a tap.
struct AddedChunk {
  int k, group, of_group, first_channel, first_tap;

  __device__ AddedChunk(const WideWeightsAdding& of, int block, int filters) {
    const auto [above_channels, of_channels] = of.channel_chunks.divide(block);
    const auto [number, of_taps] = of.tap_chunks.divide(above_channels);
    const auto [of_all, in_group] = of.filter_chunks.divide(number);
    group = of_all, of_group = in_group * filters, k = group * of.places.groups.filters + of_group;
    first_channel = of_channels * of.chunk_channels, first_tap = of_taps * of.chunk_taps;
  }
  __device__ void advance() { ++k, ++of_group; }
  /// Whether the group has the `i`th filter from this one on.
  __device__ bool is_there(const WideWeightsAdding& of, int i = 0) const {
    return of_group + i < of.places.groups.filters;
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

/// Sums anew, by the definition, what came out NaN of a block's sums. Those of vectors that are not
/// there are zeros, which `least_sum` makes NaN too.
template <class Stored>
__device__ void repair_sums(const WideWeightsAdding& of, const AddedChunk& chunk, const Stored* x,
                            const Stored* dy, int columns, float* sums) {
  __shared__ double exact[weights::finish_threads];
#pragma unroll 1
  for (int i = 0; i < columns; ++i) {
    if (!is_doubtful(of, sums[i])) continue;
    const AddedVector vector(of, chunk, i / 4);
    if (!vector.is_there) continue;
    const WideWeight wrong(of.places, vector.tap, vector.channel + i % 4);
    if (!wrong.is_there(of.places, chunk.of_group)) continue;
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

/// Stores a vector of a filter one by one.
template <class Stored>
__device__ void store_elements(const WideWeightsAdding& of, const AddedChunk& chunk,
                               const AddedVector& vector, float4 sum, Stored* dw) {
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    const WideWeight weight(of.places, vector.tap, vector.channel + i);
    if (weight.is_there(of.places, chunk.of_group))
      store_weight(dw[weight.at(of.places.strides, chunk.k)], sum.x, of.accumulate);
    sum = {sum.y, sum.z, sum.w, 0};
  }
}

/// Adds the splits of a chain, for a vector of some filters.
template <int chains, int filters>
__device__ void add_splits(const WideWeightsAdding& of, const AddedChunk& chunk,
                           const AddedVector& vector, int chain, int splits,
                           float4 (&sums)[filters]) {
  const int columns = of.columns();
  // In place of filters that are not there the last one is read.
  const int last = of.places.groups.filters - 1 - chunk.of_group;
  const float* from[filters];
#pragma unroll
  for (int i = 0; i < filters; ++i)
    from[i] = of.sums +
              (std::int64_t{chunk.group} * of.rows + chunk.of_group + min(i, last)) * columns +
              vector.tap * of.row_channels + vector.channel;
#pragma unroll(filters == 1 ? 4 : 2)
  for (int split = chain; split < splits; split += chains) {
    float4 parts[filters];
#pragma unroll
    for (int i = 0; i < filters; ++i)
      parts[i] = *reinterpret_cast<const float4*>(from[i] + split * of.split_sums);
#pragma unroll
    for (int i = 0; i < filters; ++i) add_to(sums[i], parts[i]);
  }
}

/// A block adds the splits of some columns of `filters` filters. A thread loads four columns of
/// each split of its chain; then a thread adds the chains of four columns by a tree, and writes
/// them.
template <class Stored, WideWeightsFault fault, int chains, int filters>
__global__ void __launch_bounds__(weights::finish_threads, filters > 1 ? 3 : 1)
    add_wide_weights(const __grid_constant__ WideWeightsAdding of, const Stored* x,
                     const Stored* dy, Stored* dw) {
  static_assert(chains == 1 || filters == 1);
  constexpr int columns = added_columns<chains>, vectors = columns / 4;
  __shared__ float4 loaded[weights::finish_threads];
  wait_for_kernel_before();
  const int thread = static_cast<int>(threadIdx.x), chain = thread / vectors;
  AddedChunk chunk(of, static_cast<int>(blockIdx.x), filters);
  const AddedVector vector(of, chunk, thread % vectors);
  const int splits = of.splits - (fault == WideWeightsFault::lost_split ? 1 : 0);
  float4 sums[filters] = {};
  if (vector.is_there) add_splits<chains>(of, chunk, vector, chain, splits, sums);
  if constexpr (chains > 1) {
    loaded[thread] = sums[0];
    __syncthreads();
    if (chain == 0) sums[0] = add_chains<chains>(loaded + thread, vectors);
  }
  const bool is_there = vector.is_there && chain == 0;
  bool wrong = false;
  const WideScale scale(of.x_scale ? *of.x_scale + *of.dy_scale : 0);
#pragma unroll
  for (float4& sum : sums) {
    if (of.x_scale)
      for (float* const one : {&sum.x, &sum.y, &sum.z, &sum.w})
        *one = scale.undo(*one, of.least_sum);
    wrong = wrong || is_doubtful(of, sum);
  }
  // Chains that are not added belong to sums of others.
  const bool repairs = of.repairs && __syncthreads_or(is_there && wrong);
  if (of.access == WeightsAccess::vectors && !repairs) {
    if (!is_there) return;
    const WideWeight first(of.places, vector.tap, vector.channel);
    Stored* to = dw + first.at(of.places.strides, chunk.k);
#pragma unroll
    for (int i = 0; i < filters; ++i, to += of.places.strides.w_k)
      if (chunk.is_there(of, i) && first.is_there(of.places, chunk.of_group + i))
        store_weights(to, sums[i], of.accumulate);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < filters && chunk.is_there(of); ++i, chunk.advance()) {
    float4 sum = sums[0];
#pragma unroll
    for (int j = 0; j + 1 < filters; ++j) sums[j] = sums[j + 1];
    if (repairs) {
      __syncthreads();  // what was there has been read
      if (chain == 0) loaded[thread] = sum;
      __syncthreads();
      repair_sums(of, chunk, x, dy, columns, &loaded[0].x);
      if (chain == 0) sum = loaded[thread];
    }
    if (of.access == WeightsAccess::lines)
      store_lines(of, chunk, vector, sum, is_there, &loaded[0].x, dw);
    else if (is_there)
      store_elements(of, chunk, vector, sum, dw);
  }
}

}  // namespace plumb::cuda
