// Backward weights of several images at once: a vector holds the same position of each, so that
// rows of any length fill vectors. Here x and dy are copied so.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/weights/weights_bands.hpp"

namespace plumb {

/// Returns what loads have in common, of images `first` and those that follow it, which lie
/// `image_step` apart, fewer at the batch's end.
template <class Real>
ChannelsLoad<Real> images_from(const WeightsShared<Real>& shared, int64_t first,
                               int64_t image_step) {
  ChannelsLoad<Real> load{};
  load.dtype = shared.problem.dtype;
  load.x_channel = image_step;
  load.channels = std::min(shared.plan.sum.side, shared.problem.n - first);
  load.groups = 1;
  load.pitch = shared.plan.sum.side;
  return load;
}

/// Copies columns of the images, [column][image], with zeros in the lanes behind the last.
template <class Real>
void interleave(const WeightsShared<Real>& shared, ChannelsLoad<Real> load, const void* from,
                Real* to) {
  if (load.channels < load.pitch) std::fill_n(to, load.columns * load.pitch, Real{0});
  load.x = from, load.to = to;
  shared.copies.load(load);
}

/// Copies one plane of a channel: the columns of one remainder by the stride, of the rows from
/// `first_row` on, a stride apart.
template <class Real>
void interleave_plane(const WeightsShared<Real>& shared, ChannelsLoad<Real> images, int64_t at,
                      int64_t first_row, int64_t first_column, Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  const Planes& planes = shared.plan.planes;
  const int64_t side = shared.plan.sum.side, columns = planes.pitch / side;
  const int64_t step_h = p.p() > 1 ? p.stride.h : 1, step_w = p.q() > 1 ? p.stride.w : 1;
  const auto inside = [](int64_t extent, int64_t first, int64_t step, int64_t count) {
    return std::clamp<int64_t>(extent > first ? ceil_div(extent - first, step) : 0, 0, count);
  };
  const int64_t end = inside(p.w, first_column, step_w, columns);
  const int64_t begin =
      std::min(first_column < 0 ? ceil_div(-first_column, step_w) : int64_t{0}, end);
  images.columns = end - begin;
  images.x_column = step_w * axes.x_w;
  for (int64_t row = 0; row < planes.rows; ++row, to += planes.pitch) {
    const int64_t h = first_row + row * step_h;
    if (h < 0 || h >= p.h || begin == end) {
      std::fill_n(to, planes.pitch, Real{0});
      continue;
    }
    std::fill_n(to, begin * side, Real{0});
    const int64_t first = at + h * axes.x_h + (first_column + begin * step_w) * axes.x_w;
    interleave(shared, images, element_at(shared.launch.x, first, p.dtype), to + begin * side);
    std::fill_n(to + end * side, (columns - end) * side, Real{0});
  }
}

/// Copies the input of a band and a block's channels into planes.
template <class Real>
void interleave_planes(const WeightsShared<Real>& shared, const WeightsBlock& block,
                       const WeightsBand& band, Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  const Planes& planes = shared.plan.planes;
  const int64_t channel = block.group * shared.group_c() + block.c;
  for (int64_t i = 0; i < band.images; ++i) {
    const int64_t n = (band.image + i) / p.z() * shared.plan.sum.side;
    const int64_t z = (band.image + i) % p.z();
    const ChannelsLoad<Real> images = images_from(shared, n, axes.x_n);
    for (int64_t t = 0; t < p.t; ++t) {
      Real* plane =
          to + i * shared.plan.image_planes +
          t * shared.plan.c_block * planes.row_planes * planes.column_planes * planes.plane;
      const int64_t d = z * p.stride.d + t * p.dilation.d - p.padding.front;
      for (int64_t c = 0; c < block.channels; ++c)
        for (int64_t j = 0; j < planes.row_planes * planes.column_planes;
             ++j, plane += planes.plane) {
          if (d < 0 || d >= p.d) {
            std::fill_n(plane, planes.plane, Real{0});
            continue;
          }
          const int64_t at = n * axes.x_n + (channel + c) * axes.x_c + d * axes.x_d;
          interleave_plane(
              shared, images, at,
              band.p * (p.p() > 1 ? p.stride.h : 1) + j / planes.column_planes - p.padding.top,
              j % planes.column_planes - p.padding.left, plane);
        }
    }
  }
}

/// Packs dy as [filter][position][image], of rows that begin at `rows` for a block's first filter.
template <class Real>
void interleave_dy(const WeightsShared<Real>& shared, const WeightsBlock& block,
                   const WeightsBand& band, const int64_t* rows, Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  const int64_t row_elements = p.q() * shared.plan.sum.side;
  const int64_t step = gradient_step(band.images * band.rows * row_elements);
  for (int64_t k = 0; k < block.filters; ++k)
    for (int64_t row = 0; row < band.images * band.rows; ++row) {
      const int64_t n = (band.image + row / band.rows) / p.z() * shared.plan.sum.side;
      ChannelsLoad<Real> images = images_from(shared, n, axes.y_n);
      images.columns = p.q(), images.x_column = axes.y_q;
      interleave(shared, images, element_at(shared.launch.w, rows[row] + k * axes.y_k, p.dtype),
                 to + k * step + row * row_elements);
    }
}

/// Calls `sum(run)` with the products of a band and a block.
template <class Real, class Sum>
void add_band(const WeightsShared<Real>& shared, const WeightsBlock& block, const WeightsBand& band,
              const WeightsSlot<Real>& slot, const Sum& sum) {
  const ConvProblem& p = shared.problem;
  const WeightsPlan& plan = shared.plan;
  const WeightsAxes& axes = shared.axes;
  const int64_t q = p.q() * plan.sum.side, pitch = plan.planes.pitch;
  find_rows(shared, block, band, slot.rows);
  const int64_t dy_pitch = plan.flat ? pitch : q;
  int64_t runs = 0;
  const int64_t together = plan.flat ? band.rows : 1;
  for (int64_t i = 0; i < band.images; ++i)
    for (int64_t row = 0; row < band.rows; row += together, ++runs) {
      const int64_t n = (band.image + i) / p.z(), z = (band.image + i) % p.z();
      slot.x_starts[runs] = plan.in_x ? n * axes.x_n + z * p.stride.d * axes.x_d +
                                            (band.p + row) * (p.p() > 1 ? p.stride.h : 1) * axes.x_h
                                      : i * plan.image_planes + row * pitch;
      const int64_t packed = i * band.rows + row;
      slot.dy_starts[runs] = plan.by_filters    ? packed * q * plan.padded
                             : plan.dy_in_place ? slot.rows[packed]
                                                : packed * dy_pitch;
    }
  const auto* const x = static_cast<const Real*>(shared.launch.x);
  if (plan.sum.side > 1) {
    interleave_planes(shared, block, band, slot.planes);
    interleave_dy(shared, block, band, slot.rows, slot.dy);
  } else {
    if (!plan.in_x) load_planes(shared, block, band, slot.planes);
    if (!plan.dy_in_place) pack_dy(shared, block, band, slot);
  }
  sum(WeightsRun<Real>{
      .x = plan.in_x ? x + (block.group * shared.group_c() + block.c) * axes.x_c : slot.planes,
      .offsets = shared.offsets,
      .terms = block.channels * shared.taps(),
      .x_starts = slot.x_starts,
      .dy_starts = slot.dy_starts,
      .runs = runs,
      .count = plan.flat ? (band.rows - 1) * pitch + q : q,
      .dy = plan.dy_in_place ? static_cast<const Real*>(shared.launch.w) : slot.dy,
      .dy_k = plan.dy_in_place ? axes.y_k : gradient_step(band.images * band.rows * dy_pitch),
      .filters = plan.by_filters ? plan.padded : block.filters,
      .sums = slot.sums,
      .step = shared.kernels.lanes});
}

}  // namespace plumb
