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
    if (params_.output == PointwiseOutput::filters)
      write_filters(sums, places);
    else if (params_.output == PointwiseOutput::pixels)
      write_pixels<vector>(sums, places);
    else if (params_.output == PointwiseOutput::half_pixels)
      write_pixels<vector / 2>(sums, places);
    else
      write_elements(sums, places);
  }

 private:
  static constexpr int beside = PointwisePlace::together(Arithmetic::vector, n8_tiles);

  __device__ int filter_of(int tile) const {
    return PointwisePlace::first_filter(Arithmetic::vector, n8_tiles, chunk_, tile, t_);
  }
  __device__ static float of(const Sums& sums, int pixel, int tile, int odd) {
    return sums[pixel / 2][tile][pixel % 2 * 2 + odd];
  }
  /// Adds what is there where it is added to, and writes.
  template <class Vector>
  __device__ void finish(float2 (&outputs)[Vector::pairs], Stored* to) const {
    if (params_.epilogue.accumulate) {
      const Vector old = Vector::load(to);
#pragma unroll
      for (int i = 0; i < Vector::pairs; ++i) {
        const float2 before = old.pair[i].floats();
        outputs[i].x += before.x, outputs[i].y += before.y;
      }
    }
    const float least = params_.epilogue.least;
    Vector vector;
#pragma unroll
    for (int i = 0; i < Vector::pairs; ++i)
      vector.pair[i] =
          WidePair<Stored>::round(max_nan(outputs[i].x, least), max_nan(outputs[i].y, least));
    vector.store(to);
  }

  /// A lane's filters of a pixel lie side by side, those of tiles that are stored together.
  __device__ void write_filters(const Sums& sums, const int (&places)[vector]) const {
    using Vector = WideVector<Stored, 2 * beside * bytes>;
#pragma unroll
    for (int pixel = 0; pixel < vector; ++pixel) {
      if (pixel >= lane_.there) break;
      Stored* const to = params_.y + places[pixel];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; tile += beside) {
        const int filter = filter_of(tile);
        if (filter >= params_.k) continue;
        float2 outputs[beside];
#pragma unroll
        for (int i = 0; i < beside; ++i) {
          const float2 biases = biases_[tile + i];
          outputs[i] = {of(sums, pixel, tile + i, 0) + biases.x,
                        of(sums, pixel, tile + i, 1) + biases.y};
        }
        finish<Vector>(outputs, to + filter);
      }
    }
  }
  /// A lane's pixels of a filter lie side by side, in runs of `run`.
  template <int run>
  __device__ void write_pixels(const Sums& sums, const int (&places)[vector]) const {
    using Vector = WideVector<Stored, run * bytes>;
#pragma unroll
    for (int begin = 0; begin < vector; begin += run) {
      if (begin >= lane_.there) break;
      Stored* const first = params_.y + places[begin];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile) {
        const float2 biases = biases_[tile];
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int filter = filter_of(tile) + odd;
          if (filter >= params_.k) continue;
          Stored* const to = first + filter * params_.y_k;
          const float bias = odd == 0 ? biases.x : biases.y;
          float2 outputs[run / 2];
#pragma unroll
          for (int i = 0; i < run / 2; ++i)
            outputs[i] = {of(sums, begin + 2 * i, tile, odd) + bias,
                          of(sums, begin + 2 * i + 1, tile, odd) + bias};
          finish<Vector>(outputs, to);
        }
      }
    }
  }
  __device__ void write_elements(const Sums& sums, const int (&places)[vector]) const {
#pragma unroll
    for (int pixel = 0; pixel < vector; ++pixel) {
      if (pixel >= lane_.there) break;
      Stored* const first = params_.y + places[pixel];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile) {
        const float2 biases = biases_[tile];
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int filter = filter_of(tile) + odd;
          if (filter >= params_.k) continue;
          Stored& to = first[filter * params_.y_k];
          float output = of(sums, pixel, tile, odd) + (odd == 0 ? biases.x : biases.y);
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
