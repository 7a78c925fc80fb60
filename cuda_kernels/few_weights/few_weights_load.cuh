// Copies a unit's input and gradients to shared memory as they are stored, with zeros where there
// are none. What the rows of a plane have in common is computed once: to find a row takes longer
// than to copy it.
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

/// Coordinates of the elements along an axis of a plane that is copied: `first`, `first + step`,
/// ..., of which those from 0 to `extent` exist.
struct CopiedAxis {
  int first, step, extent;
  std::int64_t stride;  ///< in memory, from element to element

  __device__ bool has(int number) const {
    return static_cast<unsigned>(first + step * number) < static_cast<unsigned>(extent);
  }
  __device__ bool has_neighbour(int number) const {
    return static_cast<unsigned>(first + number) < static_cast<unsigned>(extent);
  }
};

/// A plane of rows in memory, and the one that it is copied to.
template <class Stored>
struct CopiedPlane {
  const Stored* tensor;
  std::int64_t offset;  ///< from there to the plane's first element
  Stored* to;
  int pitch, phase_pitch;  ///< of rows, and of the planes of a row's phases
  bool inside;             ///< whether there is such a plane
  int rows;
  CopiedAxis h, w;
};

/// Copies a plane by some lanes, so many neighbours at once: columns a step apart, in rows whose
/// stride 32 bits hold. Columns that are copied one by one may be further apart, and lie by their
/// phases.
template <int count, class Stored>
__device__ void copy_plane(const CopiedPlane<Stored>& plane, const Divisor<int>& vectors,
                           const Divisor<int>& phases, int planes, int lane, int lanes) {
  const int all = plane.rows * vectors.value();
  for (int vector = lane; vector < all; vector += lanes) {
    const auto [row, of_row] = vectors.divide(vector);
    if constexpr (count > 1) {
      const int column = of_row * count;
      const bool valid = plane.inside && plane.h.has(row) && plane.w.has_neighbour(column);
      const std::int64_t of_plane = std::int64_t{row} * static_cast<int>(plane.h.stride) + column;
      copy_elements<count>(plane.to + row * plane.pitch + column,
                           plane.tensor + (plane.offset + of_plane), valid);
    } else {
      const auto [at, phase] = phases.divide(of_row);
      if (phase >= planes) continue;
      const bool valid = plane.inside && plane.h.has(row) && plane.w.has(of_row);
      const std::int64_t of_plane = row * plane.h.stride + of_row * plane.w.stride;
      copy_elements<1>(plane.to + row * plane.pitch + phase * plane.phase_pitch + at,
                       plane.tensor + (plane.offset + of_plane), valid);
    }
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

  /// Calls `copy` with the planes that this thread has a share of, and its lane.
  template <class Copy>
  __device__ void share_planes(const Divisor<int>& lanes, int planes, const Copy& copy) const {
    const auto [first, lane] = lanes.divide(thread);
    const int step = threads / lanes.value();
    for (int plane = first; plane < planes; plane += step) copy(plane, lane);
  }

  /// All images, channels and planes of taps.
  __device__ void load_x(const Unit& unit, Stored* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const FewWeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const auto int_of = [](std::int64_t of) { return static_cast<int>(of); };
    const int first_w = int_of(sizes.w.unit * sizes.w.stride * unit.q - sizes.w.before) - cut.lead;
    const int planes = cut.box_n * cut.block_c * sizes.d.taps * cut.row_planes;
    share_planes(params.x_lanes, planes, [&](int plane, int lane) {
      const auto [above, phase_h] = params.row_planes.divide(plane);
      const auto [channels, t] = params.taps_d.divide(above);
      const auto [i, c] = params.block_c.divide(channels);
      const auto [n, z] = params.z.divide(int_of(unit.image) + i);
      const int d =
          int_of(sizes.d.unit * (sizes.d.stride * z + sizes.d.dilation * t) - sizes.d.before);
      const int h = int_of(sizes.h.unit * (sizes.h.stride * unit.b + phase_h) - sizes.h.before);
      const std::int64_t channel = share.group * sizes.group_c + share.c + c;
      const CopiedPlane<Stored> copied{
          .tensor = x,
          .offset = n * strides.x_n + channel * strides.x_c + d * strides.x_d + h * strides.x_h +
                    first_w * strides.x_w,
          .to = stage + plane * sizes.planes * cut.x_plane,
          .pitch = cut.pitch,
          .phase_pitch = cut.x_plane,
          .inside = n < sizes.n && share.c + c < sizes.group_c && d >= 0 && d < sizes.d.extent,
          .rows = cut.x_rows,
          .h = {h, int_of(sizes.h.unit * sizes.h.stride), int_of(sizes.h.extent),
                sizes.h.unit * sizes.h.stride * strides.x_h},
          .w = {first_w, int_of(sizes.w.unit), int_of(sizes.w.extent), sizes.w.unit * strides.x_w}};
      with_vector<Stored>(params.x_vector, [&]<int count>() {
        copy_plane<count>(copied, params.x_vectors, params.phases, sizes.planes, lane,
                          params.x_lanes.value());
      });
    });
  }

  /// All filters and images, from the rows before the first row b on that other taps read.
  __device__ void load_dy(const Unit& unit, Stored* stage) const {
    const WeightsSizes& sizes = params.plan.sizes;
    const FewWeightsCut& cut = params.plan.cut;
    const WeightsStrides& strides = params.plan.strides;
    const auto int_of = [](std::int64_t of) { return static_cast<int>(of); };
    const int first_p = int_of(unit.b) - (cut.outer - 1) * cut.shift, first_q = int_of(unit.q);
    share_planes(params.dy_lanes, cut.block_k * cut.box_n, [&](int plane, int lane) {
      const auto [k, i] = params.box_n.divide(plane);
      const auto [n, z] = params.z.divide(int_of(unit.image) + i);
      const std::int64_t filter = share.group * sizes.group_k + share.k + k;
      const CopiedPlane<Stored> copied{.tensor = dy,
                                       .offset = n * strides.y_n + filter * strides.y_k +
                                                 z * strides.y_z + first_p * strides.y_p +
                                                 first_q * strides.y_q,
                                       .to = stage + k * cut.dy_filter + i * cut.dy_plane,
                                       .pitch = cut.dy_pitch,
                                       .phase_pitch = 0,
                                       .inside = n < sizes.n && share.k + k < sizes.group_k,
                                       .rows = cut.dy_rows,
                                       .h = {first_p, 1, int_of(sizes.h.outputs), strides.y_p},
                                       .w = {first_q, 1, int_of(sizes.w.outputs), strides.y_q}};
      with_vector<Stored>(params.dy_vector, [&]<int count>() {
        copy_plane<count>(copied, params.dy_vectors, Divisor<int>{}, 1, lane,
                          params.dy_lanes.value());
      });
    });
  }
};

}  // namespace plumb::cuda::few_weights
