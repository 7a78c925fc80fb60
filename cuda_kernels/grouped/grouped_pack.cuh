// Filters are packed as lanes read them: a thread writes the eight bytes of a lane.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/grouped/grouped.hpp"
#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda {

inline constexpr int grouped_packing_threads = 256;

/// The filters as the caller has them, as bits. Strides are in elements.
template <class Bits>
struct GroupedWeights {
  const Bits* w;
  std::int64_t k, c, r, s;
  int columns;  ///< taps of a row

  GroupedWeights(const ConvProblem& p, const void* of)
      : w(static_cast<const Bits*>(of)),
        k(step<std::int64_t>(p.w_extents(), p.w_strides, 0)),
        c(step<std::int64_t>(p.w_extents(), p.w_strides, 1)),
        r(step<std::int64_t>(p.w_extents(), p.w_strides, p.w_extents().rank() - 2)),
        s(step<std::int64_t>(p.w_extents(), p.w_strides, p.w_extents().rank() - 1)),
        columns(static_cast<int>(p.s)) {}
  __device__ Bits at(int filter, int channel, int tap) const {
    return w[filter * k + channel * c + tap / columns * r + tap % columns * s];
  }
};

/// `Bits` is what both stored types are of.
template <class Bits>
__global__ void __launch_bounds__(grouped_packing_threads)
    pack_grouped(const __grid_constant__ GroupedWeights<Bits> from,
                 const __grid_constant__ GroupedFilters to, char* packed) {
  const std::int64_t all = to.bytes() / 8;
  const std::int64_t step = std::int64_t{gridDim.x} * grouped_packing_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * grouped_packing_threads + threadIdx.x; i < all;
       i += step) {
    const int lane = static_cast<int>(i % 32);
    const std::int64_t fragment = i / 32, of_steps = fragment / to.shape.beside;
    const int bundle = static_cast<int>(of_steps / to.steps()),
              step_of_bundle = static_cast<int>(of_steps % to.steps());
    const int filter =
        bundle * to.bundle_filters() + static_cast<int>(fragment % to.shape.beside) * 8 + lane / 4;
    const int first = filter / to.group_k * to.group_c;  // the group's first channel
    std::uint32_t words[2] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int term = 2 * step_of_bundle + j / 2, tap = term / to.units;
      const int channel =
          (to.first_unit(bundle) + term % to.units) * grouped_unit + lane % 4 * 2 + j % 2 - first;
      if (filter < to.k && tap < to.taps && channel >= 0 && channel < to.group_c)
        words[j / 2] |= std::uint32_t{from.at(filter, channel, tap)} << j % 2 * 16;
    }
    *reinterpret_cast<uint2*>(packed + 8 * i) = {words[0], words[1]};
  }
}

/// Packs w as `filters` says.
inline void pack_grouped_filters(const ConvProblem& problem, const GroupedFilters& filters,
                                 const void* w, void* packed, void* stream) {
  Launch(stream, blocks_for(filters.bytes() / 8, grouped_packing_threads), grouped_packing_threads)(
      pack_grouped<std::uint16_t>, GroupedWeights<std::uint16_t>(problem, w), filters,
      static_cast<char*>(packed));
}

}  // namespace plumb::cuda
