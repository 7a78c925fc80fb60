// Strides of rows and columns as phases: host code alone.
//
// Pixels that lie a stride apart are a phase. A tap reads pixels of one phase alone, and the taps
// of a phase are those of a convolution of stride 1 over its pixels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cuda_kernels/wide/wide_axes.hpp"

namespace plumb::cuda {

/// The phases of an axis that have taps, that of the first tap first. An axis of stride 1 has one,
/// which is the axis itself, as has every axis whose dilation is a multiple of its stride.
class PatchPhases {
 public:
  explicit PatchPhases(const WideMapAxis& axis) : axis_(axis), common_(std::gcd(step(), apart())) {}

  std::int64_t count() const { return std::min(tap_step(), axis_.taps); }
  /// From a pixel of a phase to the next.
  std::int64_t step() const { return axis_.step(); }
  /// From a tap of a phase to the next, among the taps of the filter. The first one of phase i is
  /// tap i.
  std::int64_t tap_step() const { return step() / common_; }
  /// The first pixel of a phase.
  std::int64_t first_pixel(std::int64_t phase) const {
    return first_read(phase) - step() * first_place(phase);
  }
  /// A phase as an axis of stride 1. It may have no pixel.
  WideMapAxis axis(std::int64_t phase) const {
    WideMapAxis of = axis_;
    of.extent = std::max<std::int64_t>(ceil_of(axis_.extent - first_pixel(phase), step()), 0);
    of.taps = ceil_of(axis_.taps - phase, tap_step());
    of.stride = 1, of.dilation = apart() / common_;
    of.before = -first_place(phase);
    of.x_stride = axis_.x_stride * step();
    return of;
  }
  /// Of the phase that reaches farthest, which has the most taps.
  std::int64_t reach() const { return axis(0).reach(); }

 private:
  static std::int64_t floor_of(std::int64_t value, std::int64_t by) {
    return (value - (value % by + by) % by) / by;
  }
  static std::int64_t ceil_of(std::int64_t value, std::int64_t by) { return -floor_of(-value, by); }
  // A dilation of one tap may be any number.
  std::int64_t apart() const { return axis_.taps > 1 ? axis_.dilation : 1; }
  /// What the first output reads under a phase's first tap: the pixel, and its place in the phase.
  std::int64_t first_read(std::int64_t phase) const { return phase * apart() - axis_.before; }
  std::int64_t first_place(std::int64_t phase) const { return floor_of(first_read(phase), step()); }

  WideMapAxis axis_;
  std::int64_t common_;  ///< of the stride and the dilation
};

/// The phases of a plane, those of its columns fastest.
struct PatchPlanePhases {
  PatchPhases columns, rows;

  explicit PatchPlanePhases(const ConvProblem& p) : PatchPlanePhases(WideMapAxes(p)) {}
  explicit PatchPlanePhases(const WideMapAxes& axes) : columns(axes.axis[0]), rows(axes.axis[1]) {}
  double count() const {
    return static_cast<double>(columns.count()) * static_cast<double>(rows.count());
  }
  /// Those of columns, axis 0, or of rows, axis 1.
  const PatchPhases& along(int axis) const { return axis == 0 ? columns : rows; }
  /// Which of them a phase of the plane is.
  std::int64_t phase_along(int axis, int phase) const {
    return axis == 0 ? phase % columns.count() : phase / columns.count();
  }
};

}  // namespace plumb::cuda
