// The kernel for few terms: the warps of a block gather the terms of neighbouring tiles of pixels
// once, and go through the block's chunks of filters together, because outputs of a chunk leave in
// runs of all their pixels.
#pragma once

#include "cuda_kernels/pointwise/pointwise_products.cuh"
#include "cuda_kernels/pointwise/pointwise_taps_load.cuh"
#include "cuda_kernels/pointwise/pointwise_taps_store.cuh"

namespace plumb::cuda {

/// Copies the packed filters of the block's chunks to shared memory, with their biases and with
/// where terms lie.
template <class Params>
__device__ void fill_taps(const Params& params, const TapsShared<Params>& shared,
                          const TapsShare& share) {
  constexpr int threads = 32 * taps_warps;
  const int thread = static_cast<int>(threadIdx.x);
  const auto* const from = reinterpret_cast<const uint4*>(
      params.filters + std::int64_t{share.first_chunk} * params.chunk_bytes);
  auto* const to = reinterpret_cast<uint4*>(shared.filters());
  const int vectors = share.chunks * (params.chunk_bytes / pointwise_vector_bytes);
#pragma unroll 4
  for (int i = thread; i < vectors; i += threads) to[i] = __ldg(from + i);
  for (int i = thread; i < share.chunks * taps_chunk; i += threads) {
    const int filter = share.first_chunk * taps_chunk + i;
    shared.biases()[i] = filter < params.k ? params.epilogue.template bias_of<float>(filter) : 0.0f;
  }
  for (int i = thread; i < max_taps_terms; i += threads)
    shared.terms()[i] = i < params.images.terms ? params.images.term(i) : TapsTerm{0, 0, 0, 0};
}

/// Outputs that are summed by the definition. A tap in the padding met the filter as a zero, which
/// makes NaN of an Inf; and halves of values that are not finite, or nearly so, make a sum NaN or
/// infinite.
template <class Params>
class TapsMended {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;

  /// `first` is the warp's first pixel, `chunk` of all.
  __device__ TapsMended(const Params& params, const TapsTerm* terms, int first, int chunk)
      : params_(params), terms_(terms), first_(first), filter_(chunk * taps_chunk) {}

  __device__ void mend(TapsSums<Arithmetic>& sums) const {
    if (!Arithmetic::splits && !params_.images.padded) return;
    unsigned doubtful = 0;
#pragma unroll
    for (int i = 0; i < sums_of_lane; ++i)
      doubtful |= is_doubtful(taps_sum(sums, i / 4, i % 4)) ? 1u << i : 0;
#pragma unroll 1
    for (; doubtful != 0; doubtful &= doubtful - 1) {
      const int which = __ffs(static_cast<int>(doubtful)) - 1, lane = lane_anew();
      const int pixel = first_ + taps_lane_pixel(which / 4, lane),
                filter = filter_ + lane % 4 * 4 + which % 4;
      if (pixel >= params_.images.pixels || filter >= params_.k) continue;
      const float anew = sum_anew(pixel, filter);
      // Registers have no numbers that a program could compute.
#pragma unroll
      for (int i = 0; i < sums_of_lane; ++i)
        if (i == which) taps_sum(sums, i / 4, i % 4) = anew;
    }
  }

 private:
  static constexpr int sums_of_lane = 4 * Arithmetic::vector;

  __device__ static bool is_doubtful(float sum) {
    if constexpr (Arithmetic::splits)
      return !(fabsf(sum) < __int_as_float(infinity_bits));
    else
      return sum != sum;
  }
  __device__ float sum_anew(int pixel, int filter) const {
    const TapsImages& images = params_.images;
    const TapsTerm first = images.first_tap(images.place(pixel));
    const Stored* const w = params_.dense + std::int64_t{filter} * images.terms;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < images.terms; ++i)
      if (const TapsTerm term = terms_[i]; images.has(first, term))
        sum = fma(convert<float>(params_.x[first.offset + term.offset]), convert<float>(w[i]), sum);
    return sum;
  }

  const Params& params_;
  const TapsTerm* terms_;
  int first_, filter_;
};

/// The sums of a warp's tile and a chunk, with biases.
template <class Arithmetic, int units>
__device__ void sum_taps(TapsSums<Arithmetic>& sums, const TapsFragments<Arithmetic, units>& terms,
                         const char* filters, int steps) {
#pragma unroll
  for (int unit = 0; unit < units; ++unit) {
    if (2 * unit >= steps) break;
    add_unit<PointwiseFault::none>(sums, terms, unit, filters, Arithmetic{}, steps - 2 * unit);
    filters += taps_n8_tiles * Arithmetic::planes * pointwise_fragment_bytes;
  }
}
template <int m16_tiles>
__device__ void add_biases(float (&sums)[m16_tiles][taps_n8_tiles][4], const float* biases) {
  const float4 of = *reinterpret_cast<const float4*>(biases);
#pragma unroll
  for (int pixel = 0; pixel < 2 * m16_tiles; ++pixel) {
    taps_sum(sums, pixel, 0) += of.x, taps_sum(sums, pixel, 1) += of.y;
    taps_sum(sums, pixel, 2) += of.z, taps_sum(sums, pixel, 3) += of.w;
  }
}

template <class Arithmetic, int units>
__global__ void __launch_bounds__(32 * taps_warps, taps_resident(units* Arithmetic::unit))
    pointwise_taps(const __grid_constant__ TapsParams<Arithmetic> params) {
  using Params = TapsParams<Arithmetic>;
  const TapsShare share(params);
  const TapsShared<Params> shared(params);
  fill_taps(params, shared, share);
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  TapsFragments<Arithmetic, units> terms;
  int stage = 0;
#pragma unroll 1
  for (int tile = share.tile; tile < params.tiles; tile += params.blocks) {
    const int first = tile * Params::tile_pixels,
              of_warp = first + thread / 32 * Arithmetic::pixels;
    terms.gather(params, shared.terms(), of_warp);
    const TapsTile<Params> outputs(params, first);
#pragma unroll 1
    for (int of_block = 0; of_block < share.chunks; ++of_block) {
      const int chunk = share.first_chunk + of_block;
      TapsSums<Arithmetic> sums = {};
      sum_taps<Arithmetic, units>(
          sums, terms,
          shared.filters() + of_block * params.chunk_bytes + lane * pointwise_vector_bytes,
          params.steps);
      TapsMended<Params>(params, shared.terms(), of_warp, chunk).mend(sums);
      add_biases(sums, shared.biases() + of_block * taps_chunk + lane % 4 * 4);
      if (params.output != TapsOutput::planes) {
        TapsDirect<Params>(params, of_warp, chunk).store(sums);
        continue;
      }
      const TapsPlanes<Params> planes(params, shared.stage(stage), outputs, chunk);
      planes.put(sums);
      // A warp that is ahead writes the other stage, and that it wrote before only behind the next
      // barrier, which all have come to when they have stored this one.
      __syncthreads();
      planes.store();
      stage ^= 1;
    }
  }
}

}  // namespace plumb::cuda
