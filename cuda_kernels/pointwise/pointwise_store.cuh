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
    switch (params_.output) {
      case PointwiseOutput::filters: return write_filters(sums, biases, places);
      case PointwiseOutput::pixels: return write_pixels<vector>(sums, biases, places);
      case PointwiseOutput::half_pixels: return write_pixels<vector / 2>(sums, biases, places);
      case PointwiseOutput::elements: return write_elements(sums, biases, places);
    }
  }

 private:
  using Biases = float2[n8_tiles];
  static constexpr int beside = PointwisePlace::together(Arithmetic::vector, n8_tiles);

  __device__ int filter_of(int tile) const {
    return PointwisePlace::first_filter(Arithmetic::vector, n8_tiles, chunk_, tile, t_);
  }
  __device__ static float& of(Sums& sums, int pixel, int tile, int odd) {
    return sums[pixel / 2][tile][pixel % 2 * 2 + odd];
  }
  /// What y holds where a vector goes. It is loaded in any case, from y's first place if the vector
  /// is not there, so that no load waits for a branch; and all of a chunk's before any is stored,
  /// which for the compiler might change the next.
  template <class Vector>
  __device__ Vector held(bool is_there, const Stored* to) const {
    return Vector::load(is_there ? to : params_.y);
  }
  template <class Vector>
  __device__ void finish(bool is_there, const float2 (&outputs)[Vector::pairs], Stored* to) const {
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

  /// A lane's filters of a pixel lie side by side, those of tiles that are stored together. Calls
  /// `use(is_there, to, pixel, tile)` for each vector.
  template <class F>
  __device__ void each_of_filters(const int (&places)[vector], const F& use) const {
#pragma unroll
    for (int tile = 0; tile < n8_tiles; tile += beside) {
      const int filter = filter_of(tile);
      const int pixels = filter < params_.k ? lane_.there : 0;
      Stored* const first = params_.y + filter;
#pragma unroll
      for (int pixel = 0; pixel < vector; ++pixel)
        use(pixel < pixels, first + places[pixel], pixel, tile);
    }
  }
  __device__ void write_filters(Sums& sums, const Biases& biases,
                                const int (&places)[vector]) const {
    using Vector = WideVector<Stored, 2 * beside * bytes>;
    if (params_.epilogue.accumulate)
      each_of_filters(places, [&](bool is_there, Stored* to, int pixel, int tile) {
        const auto old = held<Vector>(is_there, to);
#pragma unroll
        for (int i = 0; i < beside; ++i) {
          const float2 before = old.pair[i].floats();
          of(sums, pixel, tile + i, 0) += before.x, of(sums, pixel, tile + i, 1) += before.y;
        }
      });
    each_of_filters(places, [&](bool is_there, Stored* to, int pixel, int tile) {
      float2 outputs[beside];
#pragma unroll
      for (int i = 0; i < beside; ++i)
        outputs[i] = {of(sums, pixel, tile + i, 0) + biases[tile + i].x,
                      of(sums, pixel, tile + i, 1) + biases[tile + i].y};
      finish<Vector>(is_there, outputs, to);
    });
  }
  /// A lane's pixels of a filter lie side by side, in runs of `run`. Calls
  /// `use(is_there, to, begin, tile, odd)` for each.
  template <int run, class F>
  __device__ void each_of_pixels(const int (&places)[vector], const F& use) const {
#pragma unroll
    for (int begin = 0; begin < vector; begin += run) {
      const int filters = begin < lane_.there ? params_.k : 0;
      Stored* const first = params_.y + places[begin];
#pragma unroll
      for (int tile = 0; tile < n8_tiles; ++tile)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int filter = filter_of(tile) + odd;
          use(filter < filters, first + filter * params_.y_k, begin, tile, odd);
        }
    }
  }
  template <int run>
  __device__ void write_pixels(Sums& sums, const Biases& biases,
                               const int (&places)[vector]) const {
    using Vector = WideVector<Stored, run * bytes>;
    if (params_.epilogue.accumulate)
      each_of_pixels<run>(places, [&](bool is_there, Stored* to, int begin, int tile, int odd) {
        const auto old = held<Vector>(is_there, to);
#pragma unroll
        for (int i = 0; i < run / 2; ++i) {
          const float2 before = old.pair[i].floats();
          of(sums, begin + 2 * i, tile, odd) += before.x;
          of(sums, begin + 2 * i + 1, tile, odd) += before.y;
        }
      });
    each_of_pixels<run>(places, [&](bool is_there, Stored* to, int begin, int tile, int odd) {
      const float bias = odd == 0 ? biases[tile].x : biases[tile].y;
      float2 outputs[run / 2];
#pragma unroll
      for (int i = 0; i < run / 2; ++i)
        outputs[i] = {of(sums, begin + 2 * i, tile, odd) + bias,
                      of(sums, begin + 2 * i + 1, tile, odd) + bias};
      finish<Vector>(is_there, outputs, to);
    });
  }
  __device__ void write_elements(Sums& sums, const Biases& biases,
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
