// Filters of few terms are packed as lanes read them: a thread writes the 16 bytes of a lane.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/pointwise/pointwise_pack.cuh"
#include "cuda_kernels/pointwise/pointwise_taps.hpp"

namespace plumb::cuda {

/// The filters as the caller has them. Strides are in elements.
template <class Stored>
struct TapsWeights {
  const Stored* w;
  std::int64_t k, c, t, r, s;

  TapsWeights(const ConvProblem& p, const void* of)
      : w(static_cast<const Stored*>(of)),
        k(along(p, 0)),
        c(along(p, 1)),
        t(p.has_depth() ? along(p, 2) : 0),
        r(along(p, p.w_extents().rank() - 2)),
        s(along(p, p.w_extents().rank() - 1)) {}
  __device__ Stored at(const TapsFilters& of, int filter, int term) const {
    const int column = term % of.s, row = term / of.s % of.r, plane = term / of.s / of.r % of.t,
              channel = term / of.s / of.r / of.t;
    return w[filter * k + channel * c + plane * t + row * r + column * s];
  }

 private:
  static std::int64_t along(const ConvProblem& p, int axis) {
    return step<std::int64_t>(p.w_extents(), p.w_strides, axis);
  }
};

template <class Arithmetic>
__global__ void __launch_bounds__(pointwise_packing_threads)
    pack_taps(const __grid_constant__ TapsWeights<typename Arithmetic::Stored> from,
              const __grid_constant__ TapsFilters to, char* packed) {
  using Stored = typename Arithmetic::Stored;
  constexpr int lanes = 32;
  const std::int64_t step = std::int64_t{gridDim.x} * pointwise_packing_threads,
                     begin = std::int64_t{blockIdx.x} * pointwise_packing_threads + threadIdx.x;
  const std::int64_t all = std::int64_t{to.chunks} * to.units * taps_n8_tiles * lanes;
  for (std::int64_t i = begin; i < all; i += step) {
    const int lane = static_cast<int>(i % lanes);
    const std::int64_t fragment = i / lanes, of_units = fragment / taps_n8_tiles;
    const TapsPlace place(Arithmetic::vector, static_cast<int>(of_units / to.units),
                          static_cast<int>(of_units % to.units),
                          static_cast<int>(fragment % taps_n8_tiles), lane);
    PointwiseWords words;
#pragma unroll
    for (int j = 0; j < Arithmetic::vector; ++j)
      if (place.filter < to.k && place.term(j) < to.terms)
        words.put<Arithmetic>(j, from.at(to, place.filter, place.term(j)));
    char* const here = packed + fragment * (Arithmetic::planes * pointwise_fragment_bytes) +
                       lane * pointwise_vector_bytes;
    *reinterpret_cast<uint4*>(here) = {words.high[0], words.high[1], words.high[2], words.high[3]};
    if constexpr (Arithmetic::splits)
      *reinterpret_cast<uint4*>(here + pointwise_fragment_bytes) = {words.low[0], words.low[1],
                                                                    words.low[2], words.low[3]};
  }
  auto* const dense = reinterpret_cast<Stored*>(packed + to.dense_at());
  const std::int64_t elements = std::int64_t{to.k} * to.terms;
  for (std::int64_t i = begin; i < elements; i += step)
    dense[i] = from.at(to, static_cast<int>(i / to.terms), static_cast<int>(i % to.terms));
}

/// Packs w as `filters` says.
template <class Arithmetic>
void pack_taps_filters(const ConvProblem& problem, const TapsFilters& filters, const void* w,
                       void* packed, void* stream) {
  const std::int64_t vectors = filters.dense_at() / (Arithmetic::planes * pointwise_vector_bytes);
  Launch(stream, blocks_for(vectors, pointwise_packing_threads), pointwise_packing_threads)(
      pack_taps<Arithmetic>, TapsWeights<typename Arithmetic::Stored>(problem, w), filters,
      static_cast<char*>(packed));
}

}  // namespace plumb::cuda
