// How the outputs of a depthwise convolution are cut into threads that march.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

/// One axis of the image, as forms see it. A stride to no second output and a dilation of one tap
/// move nothing. A dilation parts the outputs of stride 1 into as many phases, each of which is a
/// convolution without.
struct Axis {
  std::int64_t outputs, taps, phases;
  bool fits_stride_1, fits_stride_2;
  bool plain;  ///< one tap that reads the one pixel there is

  Axis(std::int64_t extent, std::int64_t of_taps, std::int64_t of_outputs, std::int64_t stride,
       std::int64_t dilation, std::int64_t before)
      : outputs(of_outputs), taps(of_taps), phases(of_taps == 1 ? 1 : dilation) {
    constexpr std::int64_t max_phases = 1 << 20;  // columns of a thread beyond the last stay ints
    fits_stride_1 = phases <= max_phases && (outputs == 1 || stride == 1);
    fits_stride_2 = phases == 1 && (outputs == 1 || stride == 2);
    plain = extent == 1 && taps == 1 && outputs == 1 && before == 0;
  }
  std::int64_t of_phase() const { return ceil_div(outputs, phases); }
  bool fits(int stride) const { return stride == 1 ? fits_stride_1 : fits_stride_2; }
};

struct TimedCut {
  MarchCut cut;
  double seconds;
};

class MarchPlanner {
 public:
  MarchPlanner(const ConvProblem& p, const DeviceInfo& device, const DepthwiseChoice& choice)
      : p_(p),
        device_(device),
        choice_(choice),
        bytes_(static_cast<int>(size_in_bytes(p.dtype))),
        depth_(p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front),
        rows_(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
        columns_(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left) {}

  /// The fastest cut by its estimate, of the form in vectors of channels or the other, and its
  /// time.
  std::optional<TimedCut> fastest(bool wide) const {
    const std::span<const MarchForm> forms =
        wide ? std::span<const MarchForm>(march_channel_forms) : march_row_forms;
    for (const MarchForm& of_floats : forms) {
      const MarchForm form = march_form_for(of_floats, bytes_);
      const auto axis = marched_by(form);
      if (!axis || (wide && !channels_in_vectors(p_, form.width))) continue;
      return fastest(form, *axis);
    }
    return {};
  }

 private:
  bool is(const Axis& axis, int taps, int stride) const {
    return axis.taps == taps && axis.fits(stride);
  }
  std::optional<MarchAxis> marched_by(const MarchForm& form) const {
    if (!depth_.plain) {
      if (is(depth_, form.taps_m, form.stride) && is(rows_, form.taps_r, form.stride) &&
          is(columns_, form.taps_s, form.stride) && form.taps_r > 1)
        return MarchAxis::depth;
      return {};
    }
    if (form.taps_r > 1) return {};
    if (!rows_.plain) {
      if (is(rows_, form.taps_m, form.stride) && is(columns_, form.taps_s, form.stride) &&
          form.columns > 1)
        return MarchAxis::rows;
      return {};
    }
    if (form.taps_m == 1 && is(columns_, form.taps_s, form.stride)) return MarchAxis::images;
    if (form.columns == 1 && is(columns_, form.taps_m, form.stride)) return MarchAxis::columns;
    return {};
  }

  TimedCut fastest(const MarchForm& form, MarchAxis axis) const {
    if (choice_.length > 0) return timed(cut(form, axis, choice_.length));
    // The lengths that were timed (tests/cuda_kernels/depthwise/sweep.cu).
    TimedCut best = timed(cut(form, axis, march_max_length));
    for (const int length : {56, 28, 19, 14, 8, 7, 4, 2, 1})
      if (const TimedCut other = timed(cut(form, axis, length)); other.seconds < best.seconds)
        best = other;
    return best;
  }
  TimedCut timed(const MarchCut& cut) const {
    return {cut, depthwise_seconds(p_, device_, work_of(cut))};
  }

  /// Of one phase.
  std::int64_t outputs_along(MarchAxis axis) const {
    return axis == MarchAxis::depth     ? depth_.of_phase()
           : axis == MarchAxis::rows    ? rows_.of_phase()
           : axis == MarchAxis::columns ? columns_.of_phase()
                                        : p_.n;
  }
  std::int64_t phases_along(MarchAxis axis) const {
    return axis == MarchAxis::depth     ? depth_.phases
           : axis == MarchAxis::rows    ? rows_.phases
           : axis == MarchAxis::columns ? columns_.phases
                                        : 1;
  }
  std::int64_t groups_of(const MarchCut& cut) const {
    return cut.axis == MarchAxis::columns
               ? 1
               : ceil_div(columns_.of_phase(), cut.form.columns) * columns_.phases;
  }

  MarchCut cut(const MarchForm& form, MarchAxis axis, std::int64_t length) const {
    MarchCut cut{.form = form, .axis = axis};
    cut.lanes_along_channels = p_.k > 1 && channels_in_vectors(p_, 1);
    cut.threads = std::min(choice_.threads, depthwise_march_threads);
    // Segments are as long as each other.
    const std::int64_t outputs = outputs_along(axis);
    const std::int64_t longest = std::clamp<std::int64_t>(length, 1, march_max_length);
    cut.length = static_cast<int>(ceil_div(outputs, ceil_div(outputs, longest)));
    // The filters of a block, where its lanes are along the channels.
    if (cut.lanes_along_channels) {
      const int scalar = p_.dtype == DType::f64 ? 8 : 4;
      cut.shared_bytes = static_cast<int>(std::min<std::int64_t>(p_.k / form.width, cut.threads)) *
                         form.width * form.taps() * scalar;
    }
    return cut;
  }

  /// What the threads of a cut issue and wait for, from the kernel as it stands.
  DepthwiseWork work_of(const MarchCut& cut) const {
    const auto number = [](auto value) { return static_cast<double>(value); };
    const MarchForm& form = cut.form;
    const std::int64_t outputs = outputs_along(cut.axis), segments = ceil_div(outputs, cut.length);
    const double vectors = number(p_.k / form.width);
    const double threads = vectors * number(groups_of(cut)) * number(segments) *
                           number(phases_along(cut.axis)) *
                           (cut.axis == MarchAxis::images ? 1 : number(p_.n)) *
                           (cut.axis == MarchAxis::depth ? number(p_.p()) : 1);
    DepthwiseWork work{.blocks = std::ceil(threads / cut.threads),
                       .resident = std::floor(number(march_blocks(form, bytes_)) *
                                              depthwise_march_threads / cut.threads),
                       .warps = cut.threads / 32.0,
                       .is_double = bytes_ == 8};
    // The last segment may be shorter: these are means.
    const double of_thread = form.width * form.columns;
    const double made = number(outputs) / number(segments);
    work.steps = made * form.stride + form.taps_m - form.stride;
    // Ends of a segment meet fewer taps where that saves something.
    const double summed = form.taps_m > 3 ? made : work.steps / form.stride;
    work.fmas = summed * form.taps() * of_thread;
    work.tap_rows = work.steps * form.taps_m / form.stride * form.taps_r;
    if (bytes_ == 2) work.converted = work.steps * form.taps_r * march_window(form) * form.width;
    work.memory_waits = work.steps / march_ahead(form);
    const bool in_vectors = reads_vectors(cut);
    const double loads = form.taps_r * number(in_vectors ? 3 : march_window(form));
    work.instructions = 300 + 2 * (work.steps * loads + made * of_thread);
    // A column at a time along a row: each part of a sector goes to L2 by itself.
    const bool by_columns = form.width == 1 && !cut.lanes_along_channels && !writes_vectors(cut);
    const double stores = form.width == 1 && writes_vectors(cut) ? 1 : form.columns;
    if (by_columns)
      work.written_again = (std::min(form.columns, memory_sector_bytes / bytes_) - 1) *
                           number(element_count(p_.y_extents())) * bytes_;
    work.lines = work.steps * loads * lines_of(cut, p_.x_strides, form.stride) +
                 made * stores * lines_of(cut, p_.y_strides, 1);
    add_filters(cut, vectors, work);
    return work;
  }

  /// Weights come from memory at once, or by way of shared memory one after another: in fours, as
  /// the loop is unrolled, but for those of two bytes. There they may meet in the same bank.
  void add_filters(const MarchCut& cut, double vectors, DepthwiseWork& work) const {
    const int of_thread = cut.form.width * cut.form.taps();
    if (!cut.lanes_along_channels) {
      work.filter_waits = 1;
      work.instructions += 3.0 * of_thread;
      return;
    }
    constexpr double instructions_of_weight = 24;
    const double loaded = std::min(vectors, static_cast<double>(cut.threads)) * of_thread /
                          static_cast<double>(cut.threads);
    work.filter_waits = std::ceil(loaded / (bytes_ == 2 ? 1 : 4));
    work.instructions += instructions_of_weight * loaded + of_thread;
    work.lines += static_cast<double>(of_thread) * std::gcd(of_thread, 32) * (bytes_ == 8 ? 2 : 1);
  }

  /// Lines of 128 bytes that a warp reads or writes at once. Lanes lie along the channels, or along
  /// the columns, `stride` a thread's columns apart, and where a row is short in several channels.
  double lines_of(const MarchCut& cut, const Strides& strides, int stride) const {
    constexpr double line = 128, lanes = 32;
    const MarchForm& form = cut.form;
    if (cut.lanes_along_channels) return std::max(lanes * form.width * bytes_ / line, 1.0);
    const auto step = static_cast<double>(std::abs(strides[strides.rank() - 1]));
    const double apart = form.columns * stride * std::max(step, 1.0) * bytes_;
    const std::int64_t side_by_side = cut.axis == MarchAxis::depth ? p_.p() : 1;
    const double rows = lanes / static_cast<double>(groups_of(cut) * side_by_side);
    return std::clamp(std::max(lanes * apart / line, rows), 1.0, lanes);
  }

  /// As the launch finds (depthwise_march_launch.cuh), of aligned tensors.
  bool reads_vectors(const MarchCut& cut) const {
    const MarchForm& form = cut.form;
    return cut.axis != MarchAxis::columns && columns_.phases == 1 &&
           march_reads_vectors(form.width, form.columns, form.taps_s, form.stride) &&
           p_.boundary.w == Boundary::zeros && p_.padding.left == march_lead(form.taps_s) &&
           p_.w % form.columns == 0 && p_.q() <= p_.w &&
           columns_in_vectors(p_.x_extents(), p_.x_strides, form.columns);
  }
  bool writes_vectors(const MarchCut& cut) const {
    return cut.axis != MarchAxis::columns && columns_.phases == 1 &&
           p_.q() % cut.form.columns == 0 &&
           columns_in_vectors(p_.y_extents(), p_.y_strides, cut.form.columns);
  }

  const ConvProblem& p_;
  const DeviceInfo& device_;
  DepthwiseChoice choice_;
  int bytes_;
  Axis depth_, rows_, columns_;
};

}  // namespace

bool plan_march(const ConvProblem& problem, const DeviceInfo& device, const DepthwiseChoice& choice,
                DepthwisePlan& plan) {
  const MarchPlanner planner(problem, device, choice);
  const std::optional<TimedCut> narrow = planner.fastest(false);
  if (!narrow) return false;
  plan.march = narrow->cut, plan.seconds = narrow->seconds;
  // Vectors read less often, and have fewer threads, which load more weights.
  const std::optional<TimedCut> wide =
      choice.vectors.value_or(true) ? planner.fastest(true) : std::nullopt;
  if (wide && (choice.vectors || wide->seconds <= narrow->seconds))
    plan.wide_march = wide->cut, plan.seconds = wide->seconds;
  if (choice.staged.value_or(true))
    if (const auto seconds = plan_staged(problem, device, choice, plan)) {
      if (choice.staged || *seconds <= plan.seconds)
        plan.seconds = *seconds;
      else
        plan.staged.reset();
    }
  if (choice.direct.value_or(!choice.staged))
    if (const auto seconds = plan_direct(problem, device, plan)) {
      if (choice.direct || *seconds <= plan.seconds)
        plan.seconds = *seconds;
      else
        plan.direct.reset();
    }
  return true;
}

}  // namespace plumb::cuda
