// Filters are packed as the stages hold them: a thread writes 16 bytes, eight channels of a filter.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

inline constexpr int wide_packing_threads = 256;

/// The filters as the caller has them: strides in elements.
struct WideFilterSteps {
  std::int64_t k, c, tap[3];  ///< s, r, t
  int k_count, c_count;

  explicit WideFilterSteps(const ConvProblem& p) : WideFilterSteps(p, p.w_extents(), p.w_strides) {}

 private:
  WideFilterSteps(const ConvProblem& p, const Extents& extents, const Strides& strides)
      : k(step<std::int64_t>(extents, strides, 0)),
        c(step<std::int64_t>(extents, strides, 1)),
        tap{step<std::int64_t>(extents, strides, extents.rank() - 1),
            step<std::int64_t>(extents, strides, extents.rank() - 2),
            extents.rank() == 5 ? step<std::int64_t>(extents, strides, 2) : 0},
        k_count(static_cast<int>(p.k)),
        c_count(static_cast<int>(p.c)) {}
};

template <WideFault fault>
__global__ void __launch_bounds__(wide_packing_threads)
    pack_wide(const __grid_constant__ WideFilterSteps from, const __grid_constant__ WideFilters to,
              const std::uint16_t* w, char* packed) {
  constexpr int units = wide_channels / 8;  // of 16 bytes
  const std::int64_t all = std::int64_t{to.steps()} * to.rows * units;
  for (std::int64_t i = std::int64_t{blockIdx.x} * wide_packing_threads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * wide_packing_threads) {
    const int unit = static_cast<int>(i % units);
    const std::int64_t row = i / units;
    const int k = static_cast<int>(row % to.rows);
    int step = static_cast<int>(row / to.rows);
    const int c = step % to.channel_blocks * wide_channels + 8 * unit;
    step /= to.channel_blocks;
    const int s = step % to.taps[0], r = step / to.taps[0] % to.taps[1],
              t = step / to.taps[0] / to.taps[1];
    const std::uint16_t* const filter =
        w + k * from.k + c * from.c + s * from.tap[0] + r * from.tap[1] + t * from.tap[2];
    std::uint32_t words[4] = {};
#pragma unroll
    for (int j = 0; j < 8; ++j)
      if (k < from.k_count && c + j < from.c_count)
        words[j / 2] |= std::uint32_t{filter[j * from.c]} << j % 2 * 16;
    const int at = k % swizzle_rows * swizzle_row_bytes + 16 * unit;
    char* const atom = packed + (row - k % swizzle_rows) * swizzle_row_bytes;
    *reinterpret_cast<uint4*>(atom + (fault == WideFault::wrong_swizzle ? at : swizzle_128(at))) = {
        words[0], words[1], words[2], words[3]};
  }
}

/// Packs w as `filters` says.
template <WideFault fault = WideFault::none>
void pack_wide_filters(const ConvProblem& problem, const WideFilters& filters, const void* w,
                       void* packed, void* stream) {
  const auto units = static_cast<std::int64_t>(filters.bytes() / 16);
  Launch(stream, blocks_for(units, wide_packing_threads), wide_packing_threads)(
      pack_wide<fault>, WideFilterSteps(problem), filters, static_cast<const std::uint16_t*>(w),
      static_cast<char*>(packed));
}

}  // namespace plumb::cuda
