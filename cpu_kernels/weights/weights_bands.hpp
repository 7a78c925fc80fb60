// What both ways of summing backward weights share: blocks of dw, bands of positions, and how the
// input of a band gets to where the tiles read it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/weights/weights_output.hpp"
#include "cpu_kernels/weights/weights_plan.hpp"

namespace plumb {

using std::int64_t;

/// The data that all tasks share.
template <class Real>
struct WeightsShared {
  const ConvLaunch& launch;
  const ConvProblem& problem;
  const WeightsPlan& plan;
  const WeightsKernels<Real>& kernels;
  const ConvKernels<Real>& conv_kernels;
  const ChannelsKernels<Real>& copies;  ///< whose loads put images side by side
  WeightsAxes axes;
  ReadableRange x_readable;
  int64_t* offsets;  ///< of a block's terms, c t r s
  Real* parts;       ///< [part][k][c t r s], where there are several
  WeightsOutput<Real> output;

  int64_t group_k() const { return problem.k / problem.groups; }
  int64_t group_c() const { return problem.c / problem.groups; }
  int64_t taps() const { return problem.t * problem.r * problem.s; }
  int64_t terms() const { return group_c() * taps(); }
};

/// A thread's own memory.
template <class Real>
struct WeightsSlot {
  WeightsSlot(const WeightsPlan& plan, std::byte* memory)
      : planes(reinterpret_cast<Real*>(memory)),
        dy(reinterpret_cast<Real*>(memory + plan.planes_bytes)),
        sums(reinterpret_cast<Real*>(memory + plan.planes_bytes + plan.dy_bytes)),
        x_starts(reinterpret_cast<int64_t*>(memory + plan.planes_bytes + plan.dy_bytes +
                                            plan.sums_bytes)),
        dy_starts(x_starts + plan.sum.images_together * plan.sum.rows),
        rows(dy_starts + plan.sum.images_together * plan.sum.rows),
        block(reinterpret_cast<Real*>(memory + plan.slot_bytes() - plan.block_bytes)) {}
  Real *planes, *dy, *sums;
  int64_t *x_starts, *dy_starts, *rows;
  Real* block;  ///< [filter][term], where the plan has room for it
};

/// A block of dw: filters [k, k + filters) and channels [c, c + channels) of a group.
struct WeightsBlock {
  int64_t group, k, filters, c, channels;
};

/// Returns block `index`, of which nothing may be left at the end of an axis.
template <class Real>
WeightsBlock weights_block(const WeightsShared<Real>& shared, int64_t index) {
  const WeightsPlan& plan = shared.plan;
  const int64_t of_filters = index / plan.c_blocks;
  WeightsBlock block{};
  block.group = of_filters / plan.k_blocks;
  block.k = of_filters % plan.k_blocks * plan.k_block;
  block.filters = std::min(plan.k_block, shared.group_k() - block.k);
  block.c = index % plan.c_blocks * plan.c_block;
  block.channels = std::min(plan.c_block, shared.group_c() - block.c);
  return block;
}

/// Rows [p, p + rows) of the output planes [image, image + images).
struct WeightsBand {
  int64_t image, images, p, rows;
};

inline WeightsBand band_at(const WeightsSum& sum, int64_t band, int64_t rows) {
  const int64_t image = band / sum.bands_of_image * sum.images_together;
  const int64_t p = band % sum.bands_of_image * sum.rows;
  return {.image = image,
          .images = std::min(sum.images_together, sum.images - image),
          .p = p,
          .rows = std::min(sum.rows, rows - p)};
}

template <class Real>
void fill_weights_offsets(const WeightsShared<Real>& shared) {
  const ConvProblem& p = shared.problem;
  const WeightsPlan& plan = shared.plan;
  const Planes& planes = plan.planes;
  const int64_t step_h = p.p() > 1 ? p.stride.h : 1, step_w = p.q() > 1 ? p.stride.w : 1;
  int64_t* to = shared.offsets;
  for (int64_t c = 0; c < plan.c_block; ++c)
    for (int64_t t = 0; t < p.t; ++t)
      for (int64_t r = 0; r < p.r; ++r)
        for (int64_t s = 0; s < p.s; ++s) {
          const int64_t down = r * p.dilation.h, right = s * p.dilation.w;
          if (plan.in_x) {
            *to++ = c * shared.axes.x_c + t * p.dilation.d * shared.axes.x_d +
                    down * shared.axes.x_h + right;
            continue;
          }
          const int64_t plane =
              ((t * plan.c_block + c) * planes.row_planes + down % step_h) * planes.column_planes +
              right % step_w;
          *to++ =
              plane * planes.plane + down / step_h * planes.pitch + right / step_w * plan.sum.side;
        }
}

/// Copies the input of a band's images and a block's channels into planes.
template <class Real>
void load_planes(const WeightsShared<Real>& shared, const WeightsBlock& block,
                 const WeightsBand& band, Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsPlan& plan = shared.plan;
  const WeightsAxes& axes = shared.axes;
  const int64_t of_channel = plan.planes.row_planes * plan.planes.column_planes * plan.planes.plane;
  const std::size_t element = size_in_bytes(p.dtype);
  ConvShape conv{};
  conv.dtype = p.dtype;
  conv.h = p.h, conv.w = p.w;
  conv.x_c = axes.x_c, conv.x_h = axes.x_h, conv.x_w = axes.x_w;
  conv.group_c = block.channels;
  conv.stride = {p.p() > 1 ? p.stride.h : 1, p.q() > 1 ? p.stride.w : 1};
  conv.top = p.padding.top, conv.left = p.padding.left;
  const int64_t channel = block.group * shared.group_c() + block.c;
  for (int64_t i = 0; i < band.images; ++i) {
    const int64_t n = (band.image + i) / p.z(), z = (band.image + i) % p.z();
    for (int64_t t = 0; t < p.t; ++t) {
      Real* const planes = to + i * plan.image_planes + t * plan.c_block * of_channel;
      const int64_t d = z * p.stride.d + t * p.dilation.d - p.padding.front;
      if (d < 0 || d >= p.d) {
        std::fill_n(planes, block.channels * of_channel, Real{0});
        continue;
      }
      const int64_t at = n * axes.x_n + channel * axes.x_c + d * axes.x_d;
      conv.x = static_cast<const std::byte*>(shared.launch.x) +
               at * static_cast<std::ptrdiff_t>(element);
      conv.x_readable = {shared.x_readable.begin - at, shared.x_readable.end - at};
      shared.conv_kernels.load_planes(conv, plan.planes, OutputRow{0, 0, band.p, 0, 0}, planes);
    }
  }
}

/// Where a band's rows of dy begin, of a block's first filter.
template <class Real>
void find_rows(const WeightsShared<Real>& shared, const WeightsBlock& block,
               const WeightsBand& band, int64_t* rows) {
  const WeightsAxes& axes = shared.axes;
  const int64_t z = shared.problem.z(), k = block.group * shared.group_k() + block.k;
  for (int64_t i = 0; i < band.images; ++i) {
    const int64_t image = band.image + i;
    const int64_t n = image / z * shared.plan.sum.side;
    const int64_t at = n * axes.y_n + image % z * axes.y_z + k * axes.y_k;
    for (int64_t row = 0; row < band.rows; ++row) *rows++ = at + (band.p + row) * axes.y_p;
  }
}

/// Packs dy as the plan has it.
template <class Real>
void pack_dy(const WeightsShared<Real>& shared, const WeightsBlock& block, const WeightsBand& band,
             const WeightsSlot<Real>& slot) {
  const WeightsPlan& plan = shared.plan;
  const int64_t q = shared.problem.q();
  GradientRows rows{.dtype = shared.problem.dtype,
                    .dy = shared.launch.w,
                    .offsets = slot.rows,
                    .rows = band.images * band.rows,
                    .columns = q,
                    .filters = block.filters,
                    .dy_k = shared.axes.y_k,
                    .dy_q = shared.axes.y_q};
  if (!plan.by_filters) {
    const int64_t pitch = plan.flat ? plan.planes.pitch : q;
    shared.kernels.pack_positions(rows, pitch, gradient_step(rows.rows * pitch), slot.dy);
    return;
  }
  // Rows that are neighbours are packed as one: a square of them is transposed at once.
  if (shared.axes.y_p == q * shared.axes.y_q) {
    for (int64_t i = 0; i < band.images; ++i) slot.rows[i] = slot.rows[i * band.rows];
    rows.rows = band.images, rows.columns = band.rows * q;
  }
  shared.kernels.pack_filters(rows, plan.padded, slot.dy);
}

inline int weights_slots(const ConvProblem& problem, const WeightsPlan& plan,
                         const DeviceInfo& device) {
  return slots_of(problem, device, std::max(device.units, 1), plan.shared_bytes(),
                  plan.slot_bytes());
}

/// Says whether Real holds what is stored without rounding, and the direction is backward weights.
template <class Real>
Support takes_weights(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            fmt::format("{}; expected backward weights", to_string(problem.direction))};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  if (Support usual = forward_in<Real>(forward); !usual) return usual;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // A double cannot overflow.
  const double weights = number(problem.k) *
                         number(problem.c / problem.groups * problem.t * problem.r * problem.s) *
                         sizeof(Real);
  const double row = number(problem.t) * number((problem.r - 1) * problem.dilation.h + 1) *
                     (number(problem.q()) * number(problem.stride.w) +
                      number((problem.s - 1) * problem.dilation.w + 1)) *
                     sizeof(Real);
  if (weights + row > workspace_limit_bytes / 2)
    return {Reason::too_large,
            fmt::format("needs {:.0f} bytes for the sums and the input of a row; expected at most "
                        "{}",
                        weights + row, workspace_limit_bytes / 2)};
  return {};
}

}  // namespace plumb
