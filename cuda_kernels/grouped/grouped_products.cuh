// A warp multiplies some pixels of a patch by a strip of filters, both in shared memory.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_warp.cuh"
#include "cuda_kernels/grouped/grouped_params.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

/// Sums of a warp: fragments of 16 pixels by eight filters.
template <GroupedShape shape>
using GroupedSums = float[shape.m16][shape.n8()][4];

template <class Stored>
__device__ inline void multiply_grouped(float (&sum)[4], const Fragment (&a)[4],
                                        const Fragment (&b)[2]) {
  if constexpr (std::is_same_v<Stored, __half>)
    mma_fp16(sum, a, b);
  else
    mma_bf16(sum, a, b);
}

/// Adds all terms of the tile's pixels from `pixel` on and of the block's `strip`th strip. Lanes
/// have the row lane % 16 of each fragment, of a step's first term where they are below 16.
template <GroupedFault fault, GroupedShape shape, class Params>
__device__ void add_products(const Params& params, const GroupedShared<shape>& shared, int strip,
                             int pixel, GroupedSums<shape>& sums) {
  namespace warp = depthwise_toeplitz;
  const int lane = static_cast<int>(threadIdx.x) % 32, bundle = strip * shape.bundles;
  const auto* const patch = reinterpret_cast<const std::uint16_t*>(shared.patch());
  warp::SharedRow from[shape.bundles][shape.m16];
#pragma unroll
  for (int i = 0; i < shape.m16; ++i) {
    const int of_pixel = shared.places()[pixel + 16 * i + lane % 16].patch;
#pragma unroll
    for (int j = 0; j < shape.bundles; ++j) {
      const int of = fault == GroupedFault::wrong_unit ? bundle : bundle + j;
      from[j][i] = warp::SharedRow(patch) + (of_pixel + shared.bundles(params)[of]);
    }
  }
  const bool second = (lane >= 16) != (fault == GroupedFault::exchanged_terms);
  const int* terms = shared.terms() + (second ? 1 : 0);
  const char* filters = shared.filters() + strip * params.packed.strip_bytes() + lane * 8;
  const int bundle_bytes = params.packed.bundle_bytes(), steps = params.packed.steps();
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    const int term = terms[2 * step];
#pragma unroll
    for (int j = 0; j < shape.bundles; ++j) {
      Fragment a[shape.m16][4];
#pragma unroll
      for (int i = 0; i < shape.m16; ++i) {
        Fragment first[2], last[2];
        warp::load_two_halves(first, last, from[j][i] + term);
        a[i][0] = first[0], a[i][1] = first[1], a[i][2] = last[0], a[i][3] = last[1];
      }
#pragma unroll
      for (int t = 0; t < shape.beside; ++t) {
        const uint2 words = *reinterpret_cast<const uint2*>(filters + j * bundle_bytes + t * 256);
        const Fragment b[2] = {words.x, words.y};
#pragma unroll
        for (int i = 0; i < shape.m16; ++i)
          multiply_grouped<typename Params::Stored>(sums[i][j * shape.beside + t], a[i], b);
      }
    }
    filters += shape.beside * 256;
  }
}

}  // namespace plumb::cuda
