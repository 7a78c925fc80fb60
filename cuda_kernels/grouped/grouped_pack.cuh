// Filters are packed as lanes read them: a thread writes the eight bytes of a lane.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/grouped/grouped.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

inline constexpr int grouped_packing_threads = 256;

/// The filters as the caller has them, as bits. Strides are in elements.
template <class Bits>
struct GroupedWeights {
  const Bits* w;
  std::int64_t k, c, r, s;

  GroupedWeights(const ConvProblem& p, const void* of)
      : w(static_cast<const Bits*>(of)),
        k(step<std::int64_t>(p.w_extents(), p.w_strides, 0)),
        c(step<std::int64_t>(p.w_extents(), p.w_strides, 1)),
        r(step<std::int64_t>(p.w_extents(), p.w_strides, p.w_extents().rank() - 2)),
        s(step<std::int64_t>(p.w_extents(), p.w_strides, p.w_extents().rank() - 1)) {}
  __device__ Bits at(int filter, int channel, int row, int column) const {
    return w[filter * k + channel * c + row * r + column * s];
  }
};

__device__ inline std::uint32_t grouped_bits(std::uint16_t half) { return half; }
__device__ inline std::uint32_t grouped_bits(std::uint32_t f32) {
  return __float_as_uint(to_tf32(__uint_as_float(f32)));
}

/// `Bits` are those of a stored type. f32 is rounded to TF32.
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
    constexpr int of_word = 4 / static_cast<int>(sizeof(Bits));
#pragma unroll
    for (int j = 0; j < 2 * of_word; ++j) {
      const int number = 2 * step_of_bundle + j / of_word;
      const GroupedTerm term = to.term_at(number);
      const int channel =
          (to.first_unit(bundle) + term.unit) * to.unit + lane % 4 * of_word + j % of_word - first;
      if (filter < to.k && number < to.terms() && term.column < to.columns && channel >= 0 &&
          channel < to.group_c)
        words[j / of_word] |= grouped_bits(from.at(filter, channel, term.row, term.column))
                              << j % of_word * 16;
    }
    *reinterpret_cast<uint2*>(packed + 8 * i) = {words[0], words[1]};
  }
}

/// Packs w as `filters` says.
template <class Stored>
void pack_grouped_filters(const ConvProblem& problem, const GroupedFilters& filters, const void* w,
                          void* packed, void* stream) {
  using Bits = std::conditional_t<sizeof(Stored) == 4, std::uint32_t, std::uint16_t>;
  Launch(stream, blocks_for(filters.bytes() / 8, grouped_packing_threads), grouped_packing_threads)(
      pack_grouped<Bits>, GroupedWeights<Bits>(problem, w), filters, static_cast<char*>(packed));
}

}  // namespace plumb::cuda
