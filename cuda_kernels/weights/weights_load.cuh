// Copies a unit's input and gradients to a stage in shared memory, with zeros where there are none.
#pragma once

#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/weights/weights_params.cuh"

namespace plumb::cuda::weights {

/// Copies so many neighbours, or writes zeros. Elements that are sums as they are stored are copied
/// asynchronously; others are widened on their way.
template <int count, class Real, class Stored>
__device__ void copy_elements(Real* to, const Stored* from, bool valid) {
  if constexpr (std::is_same_v<Real, Stored>) {
    copy_bytes_async<count* static_cast<int>(sizeof(Real))>(to, from, valid);
  } else if constexpr (count == 1) {
    *to = valid ? convert<Real>(*from) : Real{0};
  } else {
    struct alignas(sizeof(Stored) * count) Elements {
      Stored element[count];
    };
    Elements elements{};
    if (valid) elements = *reinterpret_cast<const Elements*>(from);
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = valid ? convert<Real>(elements.element[i]) : Real{0};
  }
}

template <class Real, class Stored>
struct UnitLoader {
  const WeightsParams& params;
  const BlockShare& share;
  const Stored *x, *dy;
  int thread, threads;

  __device__ void load(const Unit& unit, Real* stage) const {
    load_x(unit, stage);
    load_dy(unit, stage + params.plan.cut.x_elements(params.plan.sizes.d.taps));
  }

 private:
  /// Rows of all images, channels and planes, each by some lanes; columns lie by their phases.
  __device__ void load_x(const Unit& unit, Real* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const WeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const int lanes = 1 << params.lanes_x_bits, lane = thread & (lanes - 1);
    const int rows = cut.box_n * cut.block_c * sizes.d.taps * cut.rows;
    const int columns = cut.plane_pitch * sizes.w.stride;
    const std::int64_t first_h = sizes.h.unit * sizes.h.stride * unit.p - sizes.h.before;
    const std::int64_t first_w = sizes.w.unit * sizes.w.stride * unit.q - sizes.w.before;
    for (int row = thread >> params.lanes_x_bits; row < rows;
         row += threads >> params.lanes_x_bits) {
      const auto [planes, row_h] = params.rows.divide(row);
      const auto [channels, t] = params.taps_d.divide(planes);
      const auto [i, c] = params.block_c.divide(channels);
      const auto [n, z] = params.z.divide(static_cast<int>(unit.image) + i);
      const std::int64_t d =
          sizes.d.unit * (sizes.d.stride * z + sizes.d.dilation * t) - sizes.d.before;
      const std::int64_t h = first_h + sizes.h.unit * row_h;
      const bool inside = n < sizes.n && share.c + c < sizes.group_c && d >= 0 &&
                          d < sizes.d.extent && h >= 0 && h < sizes.h.extent;
      const std::int64_t channel = share.group * sizes.group_c + share.c + c;
      const Stored* const from =
          x + (inside ? n * strides.x_n + channel * strides.x_c + d * strides.x_d + h * strides.x_h
                      : 0);
      Real* const to = stage + row * cut.row_pitch;
      for (int column = lane; column < columns; column += lanes) {
        const auto [at, phase] = params.phases.divide(column);
        if (phase >= sizes.planes) continue;
        const std::int64_t w = first_w + sizes.w.unit * column;
        const bool valid = inside && w >= 0 && w < sizes.w.extent;
        copy_elements<1>(to + phase * cut.plane_pitch + at, valid ? from + w * strides.x_w : x,
                         valid);
      }
    }
  }

  /// Rows of all filters and images, as one where they follow each other.
  __device__ void load_dy(const Unit& unit, Real* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const WeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const int lanes = 1 << params.lanes_y_bits, lane = thread & (lanes - 1);
    const std::int64_t rows_left = sizes.h.outputs - unit.p, left = sizes.w.outputs - unit.q;
    const int rows_of_image = params.joined ? 1 : cut.box_p;
    const int rows = cut.block_k * cut.box_n * rows_of_image;
    const int length = params.joined ? cut.box_p * cut.box_q : cut.box_q;
    const std::int64_t in_row = params.joined ? rows_left * left : left;
    for (int row = thread >> params.lanes_y_bits; row < rows;
         row += threads >> params.lanes_y_bits) {
      const int images = params.joined ? row : params.box_p.quotient(row);
      const int p = row - images * rows_of_image;
      const auto [k, i] = params.box_n.divide(images);
      const auto [n, z] = params.z.divide(static_cast<int>(unit.image) + i);
      const bool inside = n < sizes.n && share.k + k < sizes.group_k && p < rows_left;
      const std::int64_t filter = share.group * sizes.group_k + share.k + k;
      const Stored* const from =
          dy + (inside ? n * strides.y_n + filter * strides.y_k + z * strides.y_z +
                             (unit.p + p) * strides.y_p + unit.q * strides.y_q
                       : 0);
      Real* const to = stage + k * cut.filter_pitch + (i * cut.box_p + p) * cut.box_q;
      copy_row(to, from, length, inside ? in_row : 0, lane, lanes);
    }
  }

  __device__ void copy_row(Real* to, const Stored* from, int length, std::int64_t valid, int lane,
                           int lanes) const {
    const std::int64_t step = params.plan.strides.y_q;
    const auto copy = [&]<int count>() {
      for (int i = lane * count; i < length; i += lanes * count) {
        const bool inside = i < valid;
        copy_elements<count>(to + i, inside ? from + i * step : dy, inside);
      }
    };
    if (params.vector == 4 && (sizeof(Real) == 4 || !std::is_same_v<Real, Stored>)) {
      if constexpr (sizeof(Real) == 4) copy.template operator()<4>();
    } else if (params.vector >= 2) {
      copy.template operator()<2>();
    } else {
      copy.template operator()<1>();
    }
  }
};

}  // namespace plumb::cuda::weights
