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
  if constexpr (std::is_same_v<Stored, float>)
    mma_tf32(sum, a, b);
  else if constexpr (std::is_same_v<Stored, __half>)
    mma_fp16(sum, a, b);
  else
    mma_bf16(sum, a, b);
}

/// Loads 16 rows of a step's two units. Lanes pass row lane % 16, of the first unit where they are
/// below 16.
__device__ inline void load_grouped(Fragment (&a)[4], depthwise_toeplitz::SharedRow row) {
  Fragment first[2], last[2];
  depthwise_toeplitz::load_two_halves(first, last, row);
  a[0] = first[0], a[1] = first[1], a[2] = last[0], a[3] = last[1];
}

/// What a lane multiplies for a strip: where the units lie that its bundles see under the first tap
/// of `fragments` outputs, the terms of the steps' halves whose rows the lane passes, and filters.
template <GroupedFault fault, GroupedShape shape, int fragments>
struct GroupedOperands {
  depthwise_toeplitz::SharedRow x[shape.bundles][fragments];
  const int* terms;
  const char* filters;
  int bundle_bytes;

  template <class Params>
  __device__ GroupedOperands(const Params& params, const GroupedShared<shape, Params::size>& shared,
                             int strip, int pixel)
      : bundle_bytes(params.packed.bundle_bytes()) {
    const int lane = static_cast<int>(threadIdx.x) % 32, bundle = strip * shape.bundles;
    const depthwise_toeplitz::SharedRow patch(
        reinterpret_cast<const std::uint16_t*>(shared.patch()));
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
      const int of_pixel = shared.places()[pixel + 16 * i + lane % 16].patch;
#pragma unroll
      for (int j = 0; j < shape.bundles; ++j) {
        const int of = fault == GroupedFault::wrong_unit ? bundle : bundle + j;
        x[j][i] = patch + (of_pixel + shared.bundles(params)[of]);
      }
    }
    const bool second = (lane >= 16) != (fault == GroupedFault::exchanged_terms);
    terms = shared.terms() + (second ? 1 : 0);
    filters = shared.filters() + strip * params.packed.strip_bytes() + lane * 8;
  }
  /// Adds the products of a step's fragments of x, by all filters of a bundle, to its sums.
  template <class Stored>
  __device__ void multiply(const Fragment (*a)[4], int bundle, int step,
                           GroupedSums<shape>& sums) const {
#pragma unroll
    for (int t = 0; t < shape.beside; ++t) {
      const uint2 words = *reinterpret_cast<const uint2*>(filters + bundle * bundle_bytes +
                                                          (step * shape.beside + t) * 256);
      const Fragment b[2] = {words.x, words.y};
#pragma unroll
      for (int i = 0; i < shape.m16; ++i)
        multiply_grouped<Stored>(sums[i][bundle * shape.beside + t], a[i], b);
    }
  }
  __device__ void go_on(int steps) { filters += steps * shape.beside * 256; }
};

/// Adds all terms of the tile's pixels from `pixel` on and of the block's `strip`th strip.
template <GroupedFault fault, GroupedShape shape, class Params>
__device__ void add_products(const Params& params, const GroupedShared<shape, Params::size>& shared,
                             int strip, int pixel, GroupedSums<shape>& sums) {
  GroupedOperands<fault, shape, shape.m16> of(params, shared, strip, pixel);
  const int steps = params.packed.steps();
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    const int term = of.terms[2 * step];
#pragma unroll
    for (int j = 0; j < shape.bundles; ++j) {
      Fragment a[shape.m16][4];
#pragma unroll
      for (int i = 0; i < shape.m16; ++i) load_grouped(a[i], of.x[j][i] + term);
      of.template multiply<typename Params::Stored>(a, j, 0, sums);
    }
    of.go_on(1);
  }
}

}  // namespace plumb::cuda
