// A warp's sums become outputs: bias, what y held, activation, one rounding, in vectors where y has
// them. Nothing is staged: a lane has neighbouring filters of a pixel, and neighbouring pixels of a
// filter.
#pragma once

#include "cuda_kernels/pointwise/pointwise_products.cuh"
#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"

namespace plumb::cuda {

template <class Params, int n8_tiles, PointwiseFault fault>
class PointwiseStore {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;
  using Sums = PointwiseSums<Arithmetic, n8_tiles>;
  static constexpr int vector = Arithmetic::vector, bytes = sizeof(Stored);

  /// `chunk` is of the block's.
  __device__ PointwiseStore(const Params& params, const PointwiseShared<n8_tiles>& shared,
                            const PointwiseShare& share, int tile, int chunk)
      : params_(params), lane_(params.offsets), chunk_(share.first_chunk + chunk) {
    // What is made before the loop would take registers through all of it.
    const int lane = lane_anew();
    t_ = lane % 4, biases_ = shared.biases(chunk, t_);
    lane_.at(tile, lane);
    if (fault == PointwiseFault::lost_pixel) --lane_.there;
    if (fault == PointwiseFault::unmasked && lane_.there > 0) lane_.there = vector;
  }

  __device__ void write(Sums& sums) const {
    if constexpr (Arithmetic::splits) mend(sums);
    int places[vector];
    lane_.places(params_.offsets.y_step, places);
    // Once: what is in shared memory might change with each store to y, for the compiler.
    float2 biases[n8_tiles];
#pragma unroll
    for (int tile = 0; tile < n8_tiles; ++tile) biases[tile] = biases_[tile];
    if (params_.output == PointwiseOutput::elements)
      write_elements(sums, biases, places);
    else if (params_.epilogue.accumulate)
      write_vectors<true>(sums, biases, places);
    else
      write_vectors<false>(sums, biases, places);
  }

 private:
  using Biases = float2[n8_tiles];
  static constexpr int beside = PointwisePlace::together(Arithmetic::vector, n8_tiles);

  __device__ int filter_of(int tile) const {
    return PointwisePlace::first_filter(Arithmetic::vector, n8_tiles, chunk_, tile, t_);
  }
  __device__ static float of(const Sums& sums, int pixel, int tile, int odd) {
    return sums[pixel / 2][tile][pixel % 2 * 2 + odd];
  }
  /// Adds what is there where it is added to, and writes, if `is_there`.
  template <bool accumulates, class Vector>
  __device__ void finish(bool is_there, float2 (&outputs)[Vector::pairs], Stored* to) const {
    if constexpr (accumulates) {
      if (!is_there) return;
      const Vector old = Vector::load(to);
#pragma unroll
      for (int i = 0; i < Vector::pairs; ++i) {
        const float2 before = old.pair[i].floats();
        outputs[i].x += before.x, outputs[i].y += before.y;
      }
    }
    // Rounding keeps order, 0 and -Inf, so that the limit may be applied behind it, to pairs.
    const float least = params_.epilogue.least;
    Vector vector;
#pragma unroll
    for (int i = 0; i < Vector::pairs; ++i)
      if constexpr (Arithmetic::is_tf32) {
        vector.pair[i] = {{max_nan(outputs[i].x, least), max_nan(outputs[i].y, least)}};
      } else {
        vector.pair[i] = WidePair<Stored>::round(outputs[i].x, outputs[i].y);
        vector.pair[i].of =
            __hmax2_nan(vector.pair[i].of, WidePair<Stored>::round(least, least).of);
      }
    if (is_there) vector.store(to);
  }

  template <bool accumulates>
  __device__ void write_vectors(const Sums& sums, const Biases& biases,
                                const int (&places)[vector]) const {
    if (params_.output == PointwiseOutput::filters)
      write_filters<accumulates>(sums, biases, places);
    else if (params_.output == PointwiseOutput::pixels)
      write_pixels<accumulates, vector>(sums, biases, places);
    else
      write_pixels<accumulates, vector / 2>(sums, biases, places);
  }
  /// A lane's filters of a pixel lie side by side, those of tiles that are stored together.
  template <bool accumulates>
  __device__ void write_filters(const Sums& sums, const Biases& biases,
                                const int (&places)[vector]) const {
    using Vector = WideVector<Stored, 2 * beside * bytes>;
#pragma unroll
    for (int tile = 0; tile < n8_tiles; tile += beside) {
      const int filter = filter_of(tile);
      const int pixels = filter < params_.k ? lane_.there : 0;
      Stored* const first = params_.y + filter;
#pragma unroll
      for (int pixel = 0; pixel < vector; ++pixel) {
        float2 outputs[beside];
#pragma unroll
        for (int i = 0; i < beside; ++i)
          outputs[i] = {of(sums, pixel, tile + i, 0) + biases[tile + i].x,
                        of(sums, pixel, tile + i, 1) + biases[tile + i].y};
        finish<accumulates, Vector>(pixel < pixels, outputs, first + places[pixel]);
      }
    }
  }
  /// A lane's pixels of a filter lie side by side, in runs of `run`.
  template <bool accumulates, int run>
  __device__ void write_pixels(const Sums& sums, const Biases& biases,
                               const int (&places)[vector]) const {
    using Vector = WideVector<Stored, run * bytes>;
#pragma unroll
    for (int begin = 0; begin < vector; begin += run) {
      const int filters = begin < lane_.there ? params_.k : 0;
      Stored* const first = params_.y + places[begin];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int filter = filter_of(tile) + odd;
          const float bias = odd == 0 ? biases[tile].x : biases[tile].y;
          float2 outputs[run / 2];
#pragma unroll
          for (int i = 0; i < run / 2; ++i)
            outputs[i] = {of(sums, begin + 2 * i, tile, odd) + bias,
                          of(sums, begin + 2 * i + 1, tile, odd) + bias};
          finish<accumulates, Vector>(filter < filters, outputs, first + filter * params_.y_k);
        }
    }
  }
  __device__ void write_elements(const Sums& sums, const Biases& biases,
                                 const int (&places)[vector]) const {
#pragma unroll
    for (int pixel = 0; pixel < vector; ++pixel) {
      if (pixel >= lane_.there) break;
      Stored* const first = params_.y + places[pixel];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int filter = filter_of(tile) + odd;
          if (filter >= params_.k) continue;
          Stored& to = first[filter * params_.y_k];
          float output = of(sums, pixel, tile, odd) + (odd == 0 ? biases[tile].x : biases[tile].y);
          if (params_.epilogue.accumulate) output += convert<float>(to);
          to = convert<Stored>(max_nan(output, params_.epilogue.least));
        }
      }
    }
  }

  /// Halves of values that are not finite, or nearly so, make a sum NaN or infinite: such a sum is
  /// made anew by the definition.
  __device__ void mend(Sums& sums) const {
    bool doubtful = false;
#pragma unroll
    for (int j = 0; j < Arithmetic::m16_tiles; ++j)
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) doubtful = doubtful || is_doubtful_sum(sums[j][tile][i]);
    if (!doubtful) return;
#pragma unroll
    for (int j = 0; j < Arithmetic::m16_tiles; ++j)
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int pixel = 2 * j + i / 2, filter = filter_of(tile) + i % 2;
          if (is_doubtful_sum(sums[j][tile][i]) && pixel < lane_.there && filter < params_.k)
            sums[j][tile][i] = sum_anew(lane_.pixel(pixel), filter);
        }
  }
  __device__ static bool is_doubtful_sum(float sum) {
    return !(fabsf(sum) < __int_as_float(infinity_bits));
  }
  __device__ __noinline__ float sum_anew(int pixel, int filter) const {
    const Stored* const x = params_.x + params_.offsets.of_x(pixel);
    const float* const w = params_.dense + std::int64_t{filter} * params_.c;
    float sum = 0;
#pragma unroll 1
    for (int c = 0; c < params_.c; ++c) sum = fma(convert<float>(x[c * params_.x_c]), w[c], sum);
    return sum;
  }

  const Params& params_;
  const float2* biases_;  ///< two of each n8 tile
  PointwiseLane<Arithmetic> lane_;
  int t_ = 0, chunk_;
};

}  // namespace plumb::cuda
