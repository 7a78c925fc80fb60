// Filters are packed as kernels of windows take them. Each group has a header and the k steps of
// all its columns; behind the groups lie the filters as they are, dense, for outputs that are
// summed again.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/few_channels/window_filters.cuh"
#include "cuda_kernels/few_channels/window_stream.cuh"

namespace plumb::cuda {

/// Says what packed filters depend on, and where their parts lie in bytes.
struct PackedWindows {
  WindowTerms terms;
  FilterStrips filter_strips;  ///< where filters stream
  int n8_tiles, groups, k_steps;
  bool warpgroups;  ///< k steps lie as wgmma() wants them, otherwise as [k step][eight][lane]
  std::size_t group_bytes, dense_at, bytes;

  PackedWindows(const ConvProblem& problem, const WindowKernelConfig& unit,
                const WindowCosts& costs)
      : terms(problem, unit),
        filter_strips(unit.streams ? FilterStrips(problem, unit, costs) : FilterStrips()),
        n8_tiles(unit.filter_n8_tiles),
        groups(
            static_cast<int>(ceil_div(problem.k, std::int64_t{terms.eight_filters()} * n8_tiles))),
        k_steps(unit.streams ? filter_strips.k_steps()
                             : static_cast<int>(product_channels(problem)) * terms.k_steps()),
        warpgroups(unit.warpgroups) {
    group_bytes = packed_header_bytes +
                  static_cast<std::size_t>(k_steps) * n8_tiles * 32 * costs.k_step_bytes;
    dense_at = group_bytes * groups;
    bytes = dense_at + static_cast<std::size_t>(element_count(problem.w_extents())) *
                           size_in_bytes(problem.dtype);
  }
};

struct PackedTap {
  int c, r, s;  ///< may lie outside the filter
};

/// Names the taps of each k step where filters stream.
struct StripKSteps {
  int filter_strip_length, filter_strip_step;
  Divisor<int> row_terms, starts, parities, lengths;

  explicit StripKSteps(const PackedWindows& packed)
      : filter_strip_length(packed.filter_strips.length),
        filter_strip_step(packed.filter_strips.step),
        row_terms(packed.terms.columns / 2),
        starts(packed.filter_strips.starts),
        parities(packed.filter_strips.parities),
        lengths(packed.filter_strips.length) {}
  /// Returns the j-th of a lane's four taps in a k step.
  __device__ PackedTap operator()(int k_step, int lane, int j) const {
    const auto [filter_strip, row] = lengths.divide(k_step);
    const StripPair pair(*this, filter_strip * FilterStrips::pairs + j / 2 * 4 + lane % 4);
    return {pair.channel, pair.row + row * filter_strip_step, 2 * pair.column_pair + j % 2};
  }
};

/// Names the taps of each k step where filters stay: channel by channel, two segments a k step.
struct SegmentKSteps {
  int segment_rows, segment_bits;
  bool wide;
  Divisor<int> channel_k_steps;

  explicit SegmentKSteps(const PackedWindows& packed)
      : segment_rows(packed.terms.segment_rows),
        segment_bits(packed.terms.segment_bits()),
        wide(packed.terms.wide()),
        channel_k_steps(packed.terms.k_steps()) {}
  __device__ PackedTap operator()(int k_step, int lane, int j) const {
    const auto [c, of_channel] = channel_k_steps.divide(k_step);
    const int tap = lane % 4 * 2 + j % 2, column = tap & ((1 << segment_bits) - 1);
    if (wide) return {c, of_channel, j / 2 * 8 + column};
    return {c, (2 * of_channel + j / 2) * segment_rows + (tap >> segment_bits), column};
  }
};

struct PackParams {
  int shifts, n8_tiles, k_steps;
  bool warpgroups;
  std::int64_t group_bytes, dense_at;

  explicit PackParams(const PackedWindows& packed)
      : shifts(packed.terms.shifts),
        n8_tiles(packed.n8_tiles),
        k_steps(packed.k_steps),
        warpgroups(packed.warpgroups),
        group_bytes(static_cast<std::int64_t>(packed.group_bytes)),
        dense_at(static_cast<std::int64_t>(packed.dense_at)) {}
};

inline constexpr int pack_threads = 256;

/// A block packs the filters of eight columns.
template <class Scheme, class KSteps, class Stored>
__global__ void __launch_bounds__(pack_threads)
    pack_n8_tiles(const __grid_constant__ PackParams params, const __grid_constant__ KSteps k_steps,
                  const __grid_constant__ FilterTaps<Stored> taps, char* packed) {
  using KStep = typename Scheme::KStep;
  __shared__ float scales[8];
  const int eight = static_cast<int>(blockIdx.x) % params.n8_tiles;
  const int group = static_cast<int>(blockIdx.x) / params.n8_tiles;
  const int filters = 8 / params.shifts;
  const int first_of_group = eight * filters;
  const int first_k = group * filters * params.n8_tiles + first_of_group;
  char* const of_group = packed + group * params.group_bytes;
  PackedHeader& header = *reinterpret_cast<PackedHeader*>(of_group);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < filters) {
    const float scale = describe_filter<Scheme::scaled>(header, first_of_group + warp, taps,
                                                        first_k + warp, packed + params.dense_at);
    if (lane == 0) scales[warp] = scale;
  }
  __syncthreads();
  char* const to = of_group + packed_header_bytes;
  for (int i = static_cast<int>(threadIdx.x); i < params.k_steps * 32; i += pack_threads) {
    const int of_lane = i % 32, k_step = i / 32;
    const int filter = of_lane / 4 / params.shifts, shift = of_lane / 4 % params.shifts;
    float values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const PackedTap at = k_steps(k_step, of_lane, j);
      values[j] = taps(first_k + filter, at.c, at.r, at.s - shift) * scales[filter];
    }
    const KStep filled = Scheme::k_step(values);
    // Kernels compiled for the same architecture read this layout.
    if (params.warpgroups && warpgroup_products)
      write_k_step<Scheme>(filled, to, k_step, eight, params.n8_tiles, of_lane);
    else
      reinterpret_cast<KStep*>(to)[(k_step * params.n8_tiles + eight) * 32 + of_lane] = filled;
  }
}

/// Packs the filters of tensors stored as one of `Stored`.
template <class Scheme, class KSteps, class... Stored>
void pack_windows(const FilterPacking& packing, const PackedWindows& packed) {
  with_stored<Stored...>(packing.problem.dtype, [&]<class S>(S) {
    Launch(packing.native_queue, static_cast<unsigned>(packed.groups * packed.n8_tiles),
           pack_threads)(pack_n8_tiles<Scheme, KSteps, S>, PackParams(packed), KSteps(packed),
                         FilterTaps<S>(packing.problem, packing.w),
                         static_cast<char*>(packing.filters));
  });
}

}  // namespace plumb::cuda
