// Copies a unit's input and gradients to shared memory as they are stored, with zeros where there
// are none.
#pragma once

#include "cuda_kernels/few_weights/few_weights_params.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda::few_weights {

/// Copies so many neighbours, or writes zeros: asynchronously where they are a word or more.
template <int count, class Stored>
__device__ void copy_elements(Stored* to, const Stored* from, bool valid) {
  constexpr int bytes = count * static_cast<int>(sizeof(Stored));
  if constexpr (bytes >= 4)
    copy_bytes_async<bytes>(to, from, valid);
  else
    *to = valid ? *from : Stored{};
}

/// Copies elements 0, count, ... of a row by some lanes. `source(at)` is where an element comes
/// from, or null.
template <int count, class Stored, class Source>
__device__ void copy_row(Stored* to, int length, int lane, int lanes, const Stored* anywhere,
                         const Source& source) {
  for (int at = lane * count; at < length; at += lanes * count) {
    const Stored* const from = source(at);
    copy_elements<count>(to + at, from ? from : anywhere, from != nullptr);
  }
}

/// Calls `copy` with the number of elements that are copied at once.
template <class Stored, class Copy>
__device__ void with_vector(int vector, const Copy& copy) {
  constexpr int most = 16 / static_cast<int>(sizeof(Stored));
  if (vector >= most)
    copy.template operator()<most>();
  else if (vector >= most / 2)
    copy.template operator()<most / 2>();
  else if (most == 8 && vector >= 2)
    copy.template operator()<2>();
  else
    copy.template operator()<1>();
}

template <class Stored>
struct UnitLoader {
  const Params& params;
  const BlockShare& share;
  const Stored *x, *dy;
  int thread, threads;

  /// Rows of all images, channels and planes, each by some lanes; columns lie by their phases.
  __device__ void load_x(const Unit& unit, Stored* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const FewWeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const int lanes = 1 << params.lanes_x_bits, lane = thread & (lanes - 1);
    const int rows = cut.box_n * cut.block_c * sizes.d.taps * cut.row_planes * cut.x_rows;
    const int width = cut.lead + cut.box_q + sizes.max_shift;
    const std::int64_t first_w = sizes.w.unit * sizes.w.stride * unit.q - sizes.w.before - cut.lead;
    for (int row = thread >> params.lanes_x_bits; row < rows;
         row += threads >> params.lanes_x_bits) {
      const auto [above, of_plane] = params.x_rows.divide(row);
      const auto [planes, phase_h] = params.row_planes.divide(above);
      const auto [channels, t] = params.taps_d.divide(planes);
      const auto [i, c] = params.block_c.divide(channels);
      const auto [n, z] = params.z.divide(static_cast<int>(unit.image) + i);
      const std::int64_t d =
          sizes.d.unit * (sizes.d.stride * z + sizes.d.dilation * t) - sizes.d.before;
      const std::int64_t h =
          sizes.h.unit * (sizes.h.stride * (unit.b + of_plane) + phase_h) - sizes.h.before;
      const bool inside = n < sizes.n && share.c + c < sizes.group_c && d >= 0 &&
                          d < sizes.d.extent && h >= 0 && h < sizes.h.extent;
      const std::int64_t channel = share.group * sizes.group_c + share.c + c;
      const Stored* const from =
          x + (inside ? n * strides.x_n + channel * strides.x_c + d * strides.x_d + h * strides.x_h
                      : 0);
      Stored* const to = stage + above * sizes.planes * cut.x_plane + of_plane * cut.pitch;
      if (params.x_vector > 1) {
        with_vector<Stored>(params.x_vector, [&]<int count>() {
          copy_row<count>(to, width, lane, lanes, x, [&](int at) {
            const std::int64_t w = first_w + at;
            return inside && w >= 0 && w < sizes.w.extent ? from + w : nullptr;
          });
        });
        continue;
      }
      for (int column = lane; column < width * sizes.w.stride; column += lanes) {
        const auto [at, phase] = params.phases.divide(column);
        if (phase >= sizes.planes) continue;
        const std::int64_t w = first_w + sizes.w.unit * column;
        const bool valid = inside && w >= 0 && w < sizes.w.extent;
        copy_elements<1>(to + phase * cut.x_plane + at, valid ? from + w * strides.x_w : x, valid);
      }
    }
  }

  /// Rows of all filters and images, from those before the first row b on that other taps read.
  __device__ void load_dy(const Unit& unit, Stored* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const FewWeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const int lanes = 1 << params.lanes_y_bits, lane = thread & (lanes - 1);
    const int rows = cut.block_k * cut.box_n * cut.dy_rows;
    const std::int64_t first_p = unit.b - (cut.outer - 1) * cut.shift;
    for (int row = thread >> params.lanes_y_bits; row < rows;
         row += threads >> params.lanes_y_bits) {
      const auto [images, of_plane] = params.dy_rows.divide(row);
      const auto [k, i] = params.box_n.divide(images);
      const auto [n, z] = params.z.divide(static_cast<int>(unit.image) + i);
      const std::int64_t p = first_p + of_plane;
      const bool inside =
          n < sizes.n && share.k + k < sizes.group_k && p >= 0 && p < sizes.h.outputs;
      const std::int64_t filter = share.group * sizes.group_k + share.k + k;
      const Stored* const from =
          dy + (inside ? n * strides.y_n + filter * strides.y_k + z * strides.y_z +
                             p * strides.y_p + unit.q * strides.y_q
                       : 0);
      const std::int64_t left = inside ? sizes.w.outputs - unit.q : 0;
      with_vector<Stored>(params.dy_vector, [&]<int count>() {
        copy_row<count>(stage + k * cut.dy_filter + i * cut.dy_plane + of_plane * cut.pitch,
                        cut.box_q, lane, lanes, dy,
                        [&](int at) { return at < left ? from + at * strides.y_q : nullptr; });
      });
    }
  }
};

}  // namespace plumb::cuda::few_weights
