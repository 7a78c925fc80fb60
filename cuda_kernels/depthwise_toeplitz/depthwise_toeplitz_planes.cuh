// Small planes that lie side by side in memory, whatever their rows are, move in vectors from the
// first of an image to the last: 7x7 of f16 have no row that begins where a word does. A table has
// where each element of a block's channels lies.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_params.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_warp.cuh"

namespace plumb::cuda::depthwise_toeplitz {

inline constexpr int eight = 8;

/// Some 16-bit numbers, in words.
template <int words>
struct alignas(4 * words) Packed {
  std::uint32_t of[words];

  __device__ static Packed read(const std::uint16_t* from) {
    return *reinterpret_cast<const Packed*>(from);
  }
  __device__ void write(std::uint16_t* to) const { write_words(to, of); }
};

/// Calls `of(place, i)` for eight neighbours in memory, from an element on.
template <class Of>
__device__ void for_eight_places(const std::uint16_t* table, int element, const Of& of) {
  const auto places = Packed<4>::read(table + element);
#pragma unroll
  for (int i = 0; i < eight; ++i)
    of(static_cast<int>(i % 2 == 0 ? places.of[i / 2] & 0xffff : places.of[i / 2] >> 16), i);
}

}  // namespace plumb::cuda::depthwise_toeplitz
