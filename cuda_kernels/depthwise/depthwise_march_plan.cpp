// How the outputs of a depthwise convolution are cut into threads that march.
#include <algorithm>
#include <span>

#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

/// One axis of the image, as forms see it. A stride to no second output and a dilation of one tap
/// move nothing.
struct Axis {
  std::int64_t outputs, taps;
  bool fits_stride_1, fits_stride_2;
  bool plain;  ///< one tap that reads the one pixel there is

  Axis(std::int64_t extent, std::int64_t of_taps, std::int64_t of_outputs, std::int64_t stride,
       std::int64_t dilation, std::int64_t before)
      : outputs(of_outputs), taps(of_taps) {
    const bool dense = taps == 1 || dilation == 1;
    fits_stride_1 = dense && (outputs == 1 || stride == 1);
    fits_stride_2 = dense && (outputs == 1 || stride == 2);
    plain = extent == 1 && taps == 1 && outputs == 1 && before == 0;
  }
  bool fits(int stride) const { return stride == 1 ? fits_stride_1 : fits_stride_2; }
};

class MarchPlanner {
 public:
  MarchPlanner(const ConvProblem& p, const DeviceInfo& device, const DepthwiseChoice& choice)
      : p_(p),
        units_(std::max(device.units, 1)),
        choice_(choice),
        bytes_(static_cast<int>(size_in_bytes(p.dtype))),
        depth_(p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front),
        rows_(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
        columns_(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left) {}

  std::optional<MarchCut> cut(bool wide) const {
    const std::span<const MarchForm> forms =
        wide ? std::span<const MarchForm>(march_channel_forms) : march_row_forms;
    for (const MarchForm& of_floats : forms) {
      const MarchForm form = march_form_for(of_floats, bytes_);
      const auto axis = marched_by(form);
      if (!axis || (wide && !channels_in_vectors(p_, form.width))) continue;
      return cut(form, *axis);
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

  MarchCut cut(const MarchForm& form, MarchAxis axis) const {
    MarchCut cut{.form = form, .axis = axis};
    cut.lanes_along_channels = p_.k > 1 && channels_in_vectors(p_, 1);
    cut.threads = std::min(choice_.threads, depthwise_march_threads);
    const std::int64_t outputs = axis == MarchAxis::depth     ? p_.z()
                                 : axis == MarchAxis::rows    ? p_.p()
                                 : axis == MarchAxis::columns ? p_.q()
                                                              : p_.n;
    const std::int64_t others = (p_.k / form.width) * (axis == MarchAxis::images ? 1 : p_.n) *
                                (axis == MarchAxis::columns ? 1 : ceil_div(p_.q(), form.columns)) *
                                (axis == MarchAxis::depth ? p_.p() : 1);
    // Segments read the rows between them twice. They are as long as leaves enough threads.
    constexpr std::int64_t threads_of_unit = 2048;
    const std::int64_t min_length = form.taps_m == 1 ? 1 : form.taps_m == 7 ? 7 : 4;
    const std::int64_t segments = std::clamp<std::int64_t>(
        ceil_div(threads_of_unit * units_, std::max<std::int64_t>(others, 1)), 1,
        std::max<std::int64_t>(outputs / min_length, 1));
    const std::int64_t length = choice_.length > 0 ? choice_.length : ceil_div(outputs, segments);
    // As long as each other.
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

  const ConvProblem& p_;
  std::int64_t units_;
  DepthwiseChoice choice_;
  int bytes_;
  Axis depth_, rows_, columns_;
};

}  // namespace

bool plan_march(const ConvProblem& problem, const DeviceInfo& device, const DepthwiseChoice& choice,
                DepthwisePlan& plan) {
  const MarchPlanner planner(problem, device, choice);
  plan.march = planner.cut(false);
  if (!plan.march) return false;
  if (choice.vectors) plan.wide_march = planner.cut(true);
  return true;
}

}  // namespace plumb::cuda
