// Outputs that came out NaN are summed anew by their definition.
#pragma once

#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// The filter of an output as wide_sum() reads it.
template <class Params>
class WideFilterReader {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Sum = ComputeType<typename Params::Stored>;

  __device__ WideFilterReader(const Params& params, int k) : params_(params), k_(k) {
    const WideGroups& groups = params.groups;
    const int group = k / groups.filters, of_group = k % groups.filters;
    row_ = group * params.rows + of_group;
    first_ = of_group / groups.own_filters * groups.own_channels;
    first_of_x_ = (group * groups.joined() + of_group / groups.own_filters) * params.x_channels;
  }
  /// The group's first channel in x.
  __device__ int first_channel() const { return first_of_x_; }
  /// The weight of the group's channel `of_x` under the tap s, r, t.
  __device__ Sum at(const int (&of_tap)[3], int of_x) const {
    int tap = 0, folded = 0;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      const int own = params_.axis[axis].taps, all = params_.of_x.of[axis].taps;
      const bool folds = own != all;
      tap = tap * own + (folds ? 0 : of_tap[axis]);
      if (folds) folded = folded * all + of_tap[axis];
    }
    const int c = folded * params_.x_channels + of_x;
    if constexpr (Arithmetic::splits_operands) {
      const int taps = params_.steps / params_.channel_blocks;
      const std::int64_t filter = std::int64_t{k_} * taps + tap;
      return params_.scales.dense[filter * params_.groups.own_channels + c];
    } else {
      constexpr int channels = Arithmetic::step_channels, bytes = Arithmetic::operand_bytes;
      const int channel = first_ + c, row = row_ % swizzle_rows;
      const std::int64_t step = std::int64_t{tap} * params_.channel_blocks + channel / channels;
      const char* const atom =
          params_.filters + (step * params_.all_rows + (row_ - row)) * swizzle_row_bytes;
      return convert<Sum>(*reinterpret_cast<const typename Arithmetic::Operand*>(
          atom + swizzle_128(row * swizzle_row_bytes + bytes * (channel % channels))));
    }
  }

 private:
  const Params& params_;
  int k_, row_, first_, first_of_x_;
};

/// Returns an output's sum by its definition: a tap outside the image is left out, where the
/// product had a zero that may have met an Inf, and so are other groups' channels. Or the sum of
/// every `every`th channel from `first_channel` on.
template <class Params>
__device__ ComputeType<typename Params::Stored> wide_sum(const Params& params,
                                                         const WidePixel& pixel, int k,
                                                         int first_channel = 0, int every = 1) {
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;
  const WideImageAxis &w = params.of_x.of[0], &h = params.of_x.of[1], &d = params.of_x.of[2];
  const int first[3] = {pixel.at[0] * w.stride - w.before, pixel.at[1] * h.stride - h.before,
                        pixel.at[2] * d.stride - d.before};
  const WideFilterReader<Params> filter(params, k);
  Sum sum = 0;
#pragma unroll 1
  for (int t = 0; t < d.taps; ++t)
#pragma unroll 1
    for (int r = 0; r < h.taps; ++r)
#pragma unroll 1
      for (int s = 0; s < w.taps; ++s) {
        const int at[3] = {first[0] + s * w.dilation, first[1] + r * h.dilation,
                           first[2] + t * d.dilation};
        if (at[0] < 0 || at[0] >= w.extent || at[1] < 0 || at[1] >= h.extent || at[2] < 0 ||
            at[2] >= d.extent)
          continue;
        const Stored* const x = params.x + pixel.n * params.x_n + at[2] * d.x_step +
                                at[1] * h.x_step + at[0] * w.x_step +
                                filter.first_channel() * params.x_c;
#pragma unroll 1
        for (int c = first_channel; c < params.x_channels; c += every)
          sum = fma(convert<Sum>(x[c * params.x_c]), filter.at({s, r, t}, c), sum);
      }
  return sum;
}

/// The same by a warp whose lanes call it together, and share the channels.
template <class Params>
__device__ ComputeType<typename Params::Stored> wide_sum_of_warp(const Params& params,
                                                                 const WidePixel& pixel, int k) {
  auto sum = wide_sum(params, pixel, k, static_cast<int>(threadIdx.x) % 32, 32);
#pragma unroll
  for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);
  return sum;
}

}  // namespace plumb::cuda
