// Filters are packed as the stages hold them: a thread writes 16 bytes, neighbouring channels of a
// filter.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/wide/wide_halves.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

inline constexpr int wide_packing_threads = 256;

/// The filters as the caller has them: strides in elements.
struct WideFilterSteps {
  std::int64_t k, c, tap[3];  ///< s, r, t

  explicit WideFilterSteps(const ConvProblem& p) : WideFilterSteps(p.w_extents(), p.w_strides) {}
  /// Where the filter's weights of its first channel under a tap of the product lie.
  __device__ std::int64_t at(const WideFilters& filters, int filter, int number) const {
    const int s = number % filters.taps[0], rest = number / filters.taps[0];
    return filter * k + s * tap[0] + rest % filters.taps[1] * tap[1] +
           rest / filters.taps[1] * tap[2];
  }
  /// How far behind them those of the group's channel of the product `number` do.
  template <bool wrong_order = false>
  __device__ std::int64_t channel(const WideFold& fold, int number) const {
    WideTerm term = fold.term(number);
    if (wrong_order && fold.axes != 0) {
      const int taps = fold.taps[0] * fold.taps[1] * fold.taps[2];
      term = fold.term(number % taps * fold.channels);
      term.channel = number / taps;
    }
    return term.channel * c + term.tap[0] * tap[0] + term.tap[1] * tap[1] + term.tap[2] * tap[2];
  }

 private:
  WideFilterSteps(const Extents& extents, const Strides& strides)
      : k(step<std::int64_t>(extents, strides, 0)),
        c(step<std::int64_t>(extents, strides, 1)),
        tap{step<std::int64_t>(extents, strides, extents.rank() - 1),
            step<std::int64_t>(extents, strides, extents.rank() - 2),
            extents.rank() == 5 ? step<std::int64_t>(extents, strides, 2) : 0} {}
};

/// Copies the filters as they are, and chooses the scale of each: a block a filter.
template <class Stored>
__global__ void __launch_bounds__(wide_packing_threads)
    describe_wide(const __grid_constant__ WideFilterSteps from,
                  const __grid_constant__ WideFilters to, const Stored* w, char* packed) {
  __shared__ WideLook all;
  if (threadIdx.x == 0) all = {};
  __syncthreads();
  const int k = static_cast<int>(blockIdx.x), terms = to.terms(), channels = to.groups.own_channels;
  float* const dense = reinterpret_cast<float*>(packed + to.dense_at()) + std::int64_t{k} * terms;
  WideLook look;
  for (int i = static_cast<int>(threadIdx.x); i < terms; i += wide_packing_threads) {
    const float value = w[from.at(to, k, i / channels) + from.channel(to.fold, i % channels)];
    dense[i] = value;
    look.at(value);
  }
  atomicMax(&all.most, look.most);
  atomicMin(&all.least, look.least);
  __syncthreads();
  if (threadIdx.x == 0)
    reinterpret_cast<int*>(packed + to.scales_at())[k] = WideScale(all.found()).word;
}

/// What a row of packed filters holds: a filter, whose channels of its joined group begin at
/// `first`. The filter is -1 where the row fills up.
struct WideRowOf {
  int filter, first;

  __device__ WideRowOf(const WideFilters& filters, int row) {
    const WideGroups& groups = filters.groups;
    const int group = row / filters.rows, of_group = row % filters.rows;
    filter = of_group < groups.filters ? group * groups.filters + of_group : -1;
    first = of_group / groups.own_filters * groups.own_channels;
  }
};

/// Sixteen bytes of a row, and of the row of the low halves.
struct WideUnits {
  std::uint32_t high[4] = {}, low[4] = {};

  template <class Arithmetic>
  __device__ void put(int i, typename Arithmetic::Stored value, [[maybe_unused]] float scale) {
    if constexpr (Arithmetic::splits_in_registers) {
      const WideTf32Halves halves(value);
      high[i] = halves.high, low[i] = halves.low;
    } else if constexpr (Arithmetic::splits_operands) {
      const WideHalves halves(value, scale);
      high[i / 2] |= halves.high << i % 2 * 16, low[i / 2] |= halves.low << i % 2 * 16;
    } else if constexpr (std::is_same_v<typename Arithmetic::Operand, float>) {
      high[i] = __float_as_uint(to_tf32(value));
    } else if constexpr (sizeof(value) == 8) {
      const auto* const words = reinterpret_cast<const std::uint32_t*>(&value);
      high[2 * i] = words[0], high[2 * i + 1] = words[1];
    } else {
      high[i / 2] |= std::uint32_t{*reinterpret_cast<const std::uint16_t*>(&value)} << i % 2 * 16;
    }
  }
};

template <class Arithmetic, WideFault fault>
__global__ void __launch_bounds__(wide_packing_threads)
    pack_wide(const __grid_constant__ WideFilterSteps from, const __grid_constant__ WideFilters to,
              const typename Arithmetic::Stored* w, char* packed) {
  constexpr int unit = 16 / Arithmetic::operand_bytes,  // channels of 16 bytes
      units = swizzle_row_bytes / 16;
  const std::int64_t all = std::int64_t{to.steps()} * to.all_rows() * units;
  for (std::int64_t i = std::int64_t{blockIdx.x} * wide_packing_threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * wide_packing_threads) {
    const int of_row = static_cast<int>(i % units);
    const std::int64_t row = i / units;
    const int of_step = static_cast<int>(row % to.all_rows()),
              step = static_cast<int>(row / to.all_rows());
    const WideRowOf it(to, of_step);
    const int first = step % to.channel_blocks * Arithmetic::step_channels - it.first;
    WideUnits words;
    if (it.filter >= 0) {
      float scale = 1;
      if constexpr (Arithmetic::splits_in_memory)
        scale = power_of_two(
            WideScale(reinterpret_cast<const int*>(packed + to.scales_at())[it.filter]).exponent());
      const std::int64_t tap = from.at(to, it.filter, step / to.channel_blocks);
#pragma unroll
      for (int j = 0; j < unit; ++j) {
        const int place = of_row * unit + j;
        const int c = first + (Arithmetic::splits_in_registers ? wide_split_channel(place) : place);
        if (c >= 0 && c < to.groups.own_channels)
          words.put<Arithmetic>(
              j, w[tap + from.channel<fault == WideFault::wrong_term>(to.fold, c)], scale);
      }
    }
    const int at = of_step % swizzle_rows * swizzle_row_bytes + 16 * of_row;
    char* const here = packed + (row - of_step % swizzle_rows) * swizzle_row_bytes +
                       (fault == WideFault::wrong_swizzle ? at : swizzle_128(at));
    *reinterpret_cast<uint4*>(here) = {words.high[0], words.high[1], words.high[2], words.high[3]};
    if constexpr (Arithmetic::splits_operands)
      *reinterpret_cast<uint4*>(here + to.plane_bytes()) = {words.low[0], words.low[1],
                                                            words.low[2], words.low[3]};
  }
}

/// Packs w as `filters` says.
template <class Arithmetic, WideFault fault = WideFault::none>
void pack_wide_filters(const ConvProblem& problem, const WideFilters& filters, const void* w,
                       void* packed, void* stream) {
  using Stored = typename Arithmetic::Stored;
  const WideFilterSteps from(problem);
  auto* const to = static_cast<char*>(packed);
  if constexpr (Arithmetic::splits_operands)
    Launch(stream, static_cast<unsigned>(filters.filters()), wide_packing_threads)(
        describe_wide<Stored>, from, filters, static_cast<const Stored*>(w), to);
  const std::int64_t units = filters.plane_bytes() / 16;
  Launch(stream, blocks_for(units, wide_packing_threads), wide_packing_threads)(
      pack_wide<Arithmetic, fault>, from, filters, static_cast<const Stored*>(w), to);
}

}  // namespace plumb::cuda
