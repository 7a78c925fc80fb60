// Filters are packed as lanes read them: a thread writes the 16 bytes of a lane, neighbouring
// channels of a filter.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/pointwise/pointwise_params.cuh"
#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/wide/wide_halves.cuh"

namespace plumb::cuda {

inline constexpr int pointwise_packing_threads = 256;

/// The filters as the caller has them. Strides are in elements.
template <class Stored>
struct PointwiseWeights {
  const Stored* w;
  std::int64_t k, c;

  PointwiseWeights(const ConvProblem& p, const void* of)
      : w(static_cast<const Stored*>(of)),
        k(step<std::int64_t>(p.w_extents(), p.w_strides, 0)),
        c(step<std::int64_t>(p.w_extents(), p.w_strides, 1)) {}
  __device__ Stored at(int filter, int channel) const { return w[filter * k + channel * c]; }
};

/// Sixteen bytes of a lane, and those of the low halves.
struct PointwiseWords {
  std::uint32_t high[4] = {}, low[4] = {};

  template <class Arithmetic>
  __device__ void put(int i, typename Arithmetic::Stored value) {
    if constexpr (Arithmetic::splits) {
      const WideTf32Halves halves(value);
      high[i] = halves.high, low[i] = halves.low;
    } else if constexpr (Arithmetic::is_tf32) {
      high[i] = __float_as_uint(to_tf32(value));
    } else {
      high[i / 2] |= std::uint32_t{*reinterpret_cast<const std::uint16_t*>(&value)} << i % 2 * 16;
    }
  }
};

template <class Arithmetic>
__global__ void __launch_bounds__(pointwise_packing_threads)
    pack_pointwise(const __grid_constant__ PointwiseWeights<typename Arithmetic::Stored> from,
                   const __grid_constant__ PointwiseFilters to, char* packed) {
  constexpr int lanes = 32;
  const std::int64_t step = std::int64_t{gridDim.x} * pointwise_packing_threads,
                     begin = std::int64_t{blockIdx.x} * pointwise_packing_threads + threadIdx.x;
  const std::int64_t all = std::int64_t{to.chunks} * to.units * to.n8_tiles * lanes;
  for (std::int64_t i = begin; i < all; i += step) {
    const int lane = static_cast<int>(i % lanes);
    const std::int64_t fragment = i / lanes, of_units = fragment / to.n8_tiles;
    const PointwisePlace place(
        Arithmetic::vector, to.n8_tiles, static_cast<int>(of_units / to.units),
        static_cast<int>(of_units % to.units), static_cast<int>(fragment % to.n8_tiles), lane);
    PointwiseWords words;
#pragma unroll
    for (int j = 0; j < Arithmetic::vector; ++j)
      if (place.filter < to.k && place.channel + j < to.c)
        words.put<Arithmetic>(j, from.at(place.filter, place.channel + j));
    char* const here = packed + fragment * (Arithmetic::planes * pointwise_fragment_bytes) +
                       lane * pointwise_vector_bytes;
    *reinterpret_cast<uint4*>(here) = {words.high[0], words.high[1], words.high[2], words.high[3]};
    if constexpr (Arithmetic::splits)
      *reinterpret_cast<uint4*>(here + pointwise_fragment_bytes) = {words.low[0], words.low[1],
                                                                    words.low[2], words.low[3]};
  }
  if constexpr (Arithmetic::splits) {
    auto* const dense = reinterpret_cast<float*>(packed + to.dense_at());
    const std::int64_t elements = std::int64_t{to.k} * to.c;
    for (std::int64_t i = begin; i < elements; i += step)
      dense[i] = from.at(static_cast<int>(i / to.c), static_cast<int>(i % to.c));
  }
}

/// Packs w as `filters` says.
template <class Arithmetic>
void pack_pointwise_filters(const ConvProblem& problem, const PointwiseFilters& filters,
                            const void* w, void* packed, void* stream) {
  const std::int64_t vectors = filters.dense_at() / (Arithmetic::planes * pointwise_vector_bytes);
  Launch(stream, blocks_for(vectors, pointwise_packing_threads), pointwise_packing_threads)(
      pack_pointwise<Arithmetic>, PointwiseWeights<typename Arithmetic::Stored>(problem, w),
      filters, static_cast<char*>(packed));
}

}  // namespace plumb::cuda
