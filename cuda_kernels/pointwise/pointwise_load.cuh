// x goes from global memory to registers: a lane's vectors of a batch of units, which become
// fragments of A. Lane 4 g + t has the pixels vector · g and on of a tile, and the channels vector
// · t and on of each unit: of either, as many as 16 bytes hold.
#pragma once

#include "cuda_kernels/pointwise/pointwise_params.cuh"
#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"

namespace plumb::cuda {

/// Loads 16 bytes, in one or two vectors; zeros where they are not there.
__device__ inline uint4 load_if(bool there, const void* from) {
  return there ? __ldg(static_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
}
__device__ inline uint2 load_half_if(bool there, const void* from) {
  return there ? __ldg(static_cast<const uint2*>(from)) : uint2{0, 0};
}
__device__ inline Fragment word(const uint4& of, int i) {
  return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w;
}

/// A lane's pixels of a tile, and where its vectors of x begin.
template <class Params, PointwiseInput input>
class PointwiseAim {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;
  static constexpr int vector = Arithmetic::vector, batch = Arithmetic::batch_units;
  static constexpr bool is_planes =
      input == PointwiseInput::planes || input == PointwiseInput::half_planes;
  /// Elements of two bytes are loaded where they are wanted: each takes a register of its own.
  static constexpr bool prefetches = input != PointwiseInput::elements || Arithmetic::is_tf32;
  /// 16 bytes of each of a lane's pixels, or of each of its channels.
  using Raw = uint4[batch][vector];

  __device__ explicit PointwiseAim(const Params& params) : params_(params), lane_(params.offsets) {}

  /// Turns to a tile, which may be behind the last.
  __device__ void at(int tile) {
    lane_.at(tile, lane_anew());
#pragma unroll
    for (int i = 0; i < runs; ++i) run_[i] = params_.offsets.of_x(lane_.first + i * (vector / 2));
  }
  __device__ void load(Raw& raw, int first_unit) const {
    Places places;
    find(places);
    load(raw, first_unit, places);
  }
  /// Loads the first batches, as many as there are.
  template <int count>
  __device__ void load_all(Raw (&raw)[count], int batches) const {
    Places places;
    find(places);
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i == 0 || i < batches) load(raw[i], i * batch, places);
  }

 private:
  /// Runs of pixels, whose places are kept. Those of single pixels are found when they are loaded:
  /// there are no registers for them.
  static constexpr int runs = input == PointwiseInput::planes        ? 1
                              : input == PointwiseInput::half_planes ? 2
                                                                     : 0;

  using Places = int[vector];  ///< of the lane's pixels, but for runs

  __device__ void find(Places& places) const {
    if constexpr (runs == 0) lane_.places(params_.offsets.x_step, places);
  }
  __device__ void load(Raw& raw, int first_unit, const Places& places) const {
#pragma unroll
    for (int d = 0; d < batch; ++d) {
      const int channel = channel_of(first_unit + d);
      if constexpr (input == PointwiseInput::rows)
        load_rows(raw[d], channel, places);
      else if constexpr (is_planes)
        load_planes(raw[d], channel);
      else
        load_elements(raw[d], channel, places);
    }
  }
  __device__ static int channel_of(int unit) {
    return unit * Arithmetic::unit + static_cast<int>(threadIdx.x) % 4 * vector;
  }
  /// Vectors of channels are there as a whole or not at all.
  __device__ void load_rows(uint4 (&raw)[vector], int channel, const Places& pixels) const {
    const bool has_channels = channel < params_.c;
#pragma unroll
    for (int i = 0; i < vector; ++i)
      raw[i] = load_if(has_channels && i < lane_.there, params_.x + (pixels[i] + channel));
  }
  __device__ void load_planes(uint4 (&raw)[vector], int channel) const {
    int plane = channel * params_.x_c;
#pragma unroll
    for (int i = 0; i < vector; ++i, plane += params_.x_c) {
      const bool has_channel = channel + i < params_.c;
      if constexpr (runs == 1) {
        raw[i] = load_if(has_channel && lane_.there > 0, params_.x + (run_[0] + plane));
      } else {
        const uint2 low =
                        load_half_if(has_channel && lane_.there > 0, params_.x + (run_[0] + plane)),
                    high = load_half_if(has_channel && lane_.there > vector / 2,
                                        params_.x + (run_[1] + plane));
        raw[i] = {low.x, low.y, high.x, high.y};
      }
    }
  }
  /// As rows of channels.
  __device__ void load_elements(uint4 (&raw)[vector], int channel, const Places& pixels) const {
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      const Stored* const pixel = params_.x + pixels[i];
      const int channels = i < lane_.there ? params_.c - channel : 0;
      Fragment words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if constexpr (Arithmetic::is_tf32)
          words[j] = bits(pixel, channel, j, channels);
        else
          words[j] = bits(pixel, channel, 2 * j, channels) |
                     bits(pixel, channel, 2 * j + 1, channels) << 16;
      raw[i] = {words[0], words[1], words[2], words[3]};
    }
  }
  __device__ Fragment bits(const Stored* pixel, int channel, int i, int channels) const {
    using Bits = std::conditional_t<Arithmetic::is_tf32, std::uint32_t, std::uint16_t>;
    if (i >= channels) return 0;
    return __ldg(reinterpret_cast<const Bits*>(pixel + (channel + i) * params_.x_c));
  }

  const Params& params_;
  PointwiseLane<Arithmetic> lane_;
  int run_[runs > 0 ? runs : 1];  ///< where runs begin, in elements
};

/// A warp's fragments of A of a batch: of each unit and m16 tile, of its two k steps. Rows g and g
/// + 8 of tile j are the lane's pixels 2 j and 2 j + 1; terms of both steps are its channels in
/// their order, as the filters are packed.
template <class Arithmetic, PointwiseInput input, PointwiseFault fault>
struct PointwiseFragments {
  static constexpr int vector = Arithmetic::vector, batch = Arithmetic::batch_units,
                       m16_tiles = Arithmetic::m16_tiles;
  static constexpr bool is_planes =
      input == PointwiseInput::planes || input == PointwiseInput::half_planes;
  Fragment of[batch][m16_tiles][2][4];

  /// `zero` is one that the compiler does not know: values that it knows to be copies of what a
  /// load writes would be copied, and so waited for, at the end of the turn that begins the load.
  __device__ void take(const uint4 (&raw)[batch][vector], Fragment zero) {
#pragma unroll
    for (int d = 0; d < batch; ++d)
#pragma unroll
      for (int j = 0; j < m16_tiles; ++j)
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int behind = fault == PointwiseFault::swapped_terms ? 1 - i / 2 : i / 2;
            const Fragment value = element(raw[d], 2 * j + i % 2, 2 * step + behind);
            Fragment& to = of[d][j][step][i];
            if constexpr (Arithmetic::is_tf32 && !Arithmetic::splits)
              to = __float_as_uint(to_tf32(__uint_as_float(value)));
            else if constexpr (is_planes && !Arithmetic::is_tf32)
              to = value;  // no copy
            else
              to = value | zero;
          }
  }

 private:
  /// The register of a pixel and of the lane's channel `term`, or of the two from 2 · `term` on.
  __device__ static Fragment element(const uint4 (&raw)[vector], int pixel, int term) {
    if constexpr (!is_planes) {
      return word(raw[pixel], term);
    } else if constexpr (Arithmetic::is_tf32) {
      return word(raw[term], pixel);
    } else {
      constexpr unsigned first_halves = 0x5410, second_halves = 0x7632;
      return __byte_perm(word(raw[2 * term], pixel / 2), word(raw[2 * term + 1], pixel / 2),
                         pixel % 2 == 0 ? first_halves : second_halves);
    }
  }
};

}  // namespace plumb::cuda
