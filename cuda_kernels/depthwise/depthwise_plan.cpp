// How the outputs of a depthwise convolution are cut into blocks.
#include <algorithm>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

constexpr std::int64_t shared_of_block = 227 << 10, shared_for_four = 56 << 10;

struct Axis {
  std::int64_t taps, outputs, stride, dilation;

  /// The input under so many outputs side by side.
  std::int64_t span(std::int64_t count) const {
    return (count - 1) * stride + (taps - 1) * dilation + 1;
  }
};

/// A stride to no second output and a dilation of one tap move nothing.
Axis axis(std::int64_t taps, std::int64_t outputs, std::int64_t stride, std::int64_t dilation) {
  return {taps, outputs, outputs > 1 ? stride : 1, taps > 1 ? dilation : 1};
}

class Planner {
 public:
  Planner(const ConvProblem& p, DepthwiseKernel kernel, const DeviceInfo& device,
          const DepthwiseChoice& choice)
      : problem_(p),
        kernel_(kernel),
        device_(device),
        choice_(choice),
        bytes_(static_cast<int>(size_in_bytes(p.dtype))),
        sum_bytes_(p.dtype == DType::f64 ? 8 : 4),
        rows_(axis(p.r, p.p(), p.stride.h, p.dilation.h)),
        columns_(axis(p.s, p.q(), p.stride.w, p.dilation.w)) {
    if (p.h == 1 && p.r == 1 && p.p() == 1 && p.padding.top == 0) {
      rows_are_images_ = true;
      rows_ = {1, p.n, 1, 1};
    }
  }

  std::optional<DepthwisePlan> plan() const {
    DepthwisePlan plan{.kernel = kernel_, .rows_are_images = rows_are_images_};
    if (kernel_ == DepthwiseKernel::planes) {
      const bool whole = choice_.whole.value_or(true) && plan_whole(problem_, device_, plan);
      if (whole && choice_.whole) return plan;
      const std::optional<DepthwiseCut> cut = cut_planes(form(2));
      if (!cut) return whole ? std::optional(plan) : std::nullopt;
      plan.cut = *cut;
      const double seconds = depthwise_seconds(problem_, device_, work_of_planes(problem_, plan));
      if (whole && plan.seconds <= seconds) return plan;
      plan.whole.reset(), plan.seconds = seconds;
      return plan;
    }
    const std::optional<TimedCut> narrow = fastest(plan, 1);
    if (!narrow) return {};
    plan.cut = narrow->cut, plan.seconds = narrow->seconds;
    if (choice_.vectors.value_or(true) && wide() > 1 && channels_in_vectors(problem_, wide()))
      if (const std::optional<TimedCut> cut = fastest(plan, wide()))
        plan.wide = cut->cut, plan.seconds = cut->seconds;
    return plan;
  }

 private:
  bool one_by_one() const { return columns_.stride == 1 && columns_.dilation == 1; }
  /// Channels of a thread.
  int wide() const { return bytes_ == 8 ? 1 : 2; }

  DepthwiseForm form(int width) const {
    return one_by_one() ? DepthwiseForm{width, 4, 1} : DepthwiseForm{width, 1, 0};
  }

  struct TimedCut {
    DepthwiseCut cut;
    double seconds;
  };
  /// The fastest by its estimate: many lanes along the channels read whole lines, few load fewer
  /// weights and leave more for neighbouring rows.
  std::optional<TimedCut> fastest(const DepthwisePlan& plan, int width) const {
    std::optional<TimedCut> best;
    constexpr int least = 4;  // below it only what would not fit otherwise
    for (int most = choice_.lanes > 0 ? choice_.lanes : 32; most > 0; most /= 2) {
      if (best && most < least) break;
      const std::optional<DepthwiseCut> cut = cut_channels(form(width), most);
      if (!cut) continue;
      const double seconds =
          depthwise_seconds(problem_, device_, work_of_channels(problem_, plan, *cut));
      if (!best || seconds < best->seconds) best = {*cut, seconds};
      if (choice_.lanes > 0) break;
    }
    return best;
  }

  static int lanes(std::int64_t outputs, int of_thread, int most) {
    return static_cast<int>(std::clamp<std::int64_t>(ceil_div(outputs, of_thread), 1, most));
  }
  int thread_rows(const DepthwiseForm& form) const { return depthwise_rows(kernel_, form, bytes_); }
  int thread_columns(const DepthwiseForm& form) const {
    return depthwise_columns(kernel_, form, bytes_);
  }

  std::optional<DepthwiseCut> cut_channels(const DepthwiseForm& form, int most) const {
    DepthwiseCut cut{.form = form};
    cut.lanes_c = lanes(problem_.k, form.width, most);
    cut.lanes_w = lanes(columns_.outputs, thread_columns(form), choice_.threads / cut.lanes_c);
    cut.lanes_u =
        lanes(rows_.outputs, thread_rows(form), choice_.threads / (cut.lanes_c * cut.lanes_w));
    const std::int64_t filters = rows_.taps * form.chunk * cut.lanes_c * form.width * sum_bytes_;
    const std::int64_t columns =
        columns_.span(std::int64_t{cut.lanes_w} * thread_columns(form)) + form.chunk;
    if (filters + columns * 4 + 16 > shared_of_block) return {};
    cut.columns = static_cast<int>(columns);
    cut.filter_bytes = static_cast<int>((filters + 15) / 16 * 16);
    cut.shared_bytes = cut.filter_bytes + cut.columns * 4;
    return cut;
  }

  std::optional<DepthwiseCut> cut_planes(const DepthwiseForm& form) const {
    DepthwiseCut cut{.form = form};
    const int columns = thread_columns(form) * form.width;
    cut.lanes_w = lanes(columns_.outputs, columns,
                        std::min(choice_.lanes > 0 ? choice_.lanes : 32, choice_.threads));
    cut.lanes_u = lanes(rows_.outputs, thread_rows(form), choice_.threads / cut.lanes_w);
    const double planes = static_cast<double>(problem_.k) * static_cast<double>(problem_.z()) *
                          (rows_are_images_ ? 1 : static_cast<double>(problem_.n));
    cut.planes =
        static_cast<int>(std::min<double>(choice_.threads / (cut.lanes_w * cut.lanes_u), planes));
    while (!fits(cut, shared_for_four) && cut.planes > 1) cut.planes /= 2;
    while (!fits(cut, shared_of_block)) {
      int& most = cut.lanes_u > 1 ? cut.lanes_u : cut.lanes_w;
      if (most == 1) return {};
      most /= 2;
    }
    while (cut.row_lanes > 4 && cut.row_lanes / 2 >= cut.columns) cut.row_lanes /= 2;
    return cut;
  }

  /// Counts the shared memory of planes, and says whether it is at most `most`.
  bool fits(DepthwiseCut& cut, std::int64_t most) const {
    const DepthwiseForm& form = cut.form;
    const std::int64_t rows = rows_.span(std::int64_t{cut.lanes_u} * thread_rows(form));
    const std::int64_t columns =
        columns_.span(std::int64_t{cut.lanes_w} * thread_columns(form) * form.width);
    // Windows are read in whole vectors, and the last chunk may have fewer taps.
    const std::int64_t pitch = (columns + depthwise_room(form.chunk) + 3) / 4 * 4;
    const std::int64_t chunks = ceil_div(columns_.taps, form.chunk);
    const std::int64_t filter =
        (problem_.t * rows_.taps * chunks * depthwise_room(form.chunk) + 3) / 4 * 4;
    const double bytes =
        static_cast<double>(cut.planes) * sum_bytes_ *
        (static_cast<double>(filter) + static_cast<double>(rows) * static_cast<double>(pitch));
    if (bytes > static_cast<double>(most)) return false;
    cut.rows = static_cast<int>(rows), cut.columns = static_cast<int>(columns);
    cut.pitch = static_cast<int>(pitch);
    cut.filter_bytes = static_cast<int>(cut.planes * filter * sum_bytes_);
    cut.shared_bytes = static_cast<int>(bytes);
    return true;
  }

  const ConvProblem& problem_;
  DepthwiseKernel kernel_;
  const DeviceInfo& device_;
  DepthwiseChoice choice_;
  int bytes_, sum_bytes_;
  Axis rows_, columns_;
  bool rows_are_images_ = false;
};

}  // namespace

bool is_plain_image(const ConvProblem& p) {
  const bool zeros = p.boundary.h == Boundary::zeros && p.boundary.w == Boundary::zeros;
  const bool plain = p.d == 1 && p.t == 1 && p.z() == 1 && p.padding.front == 0;
  return zeros && plain && p.k == p.c;
}

bool columns_in_vectors(const Extents& extents, const Strides& strides, int width) {
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && (i + 1 == extents.rank() ? strides[i] != 1 : strides[i] % width != 0))
      return false;
  return true;
}

bool channels_in_vectors(const Extents& extents, const Strides& strides, int width) {
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && (i == 1 ? strides[i] != 1 : strides[i] % width != 0)) return false;
  return true;
}

bool channels_in_vectors(const ConvProblem& problem, int width) {
  if (width > 1 && (problem.k != problem.c || problem.c % width != 0)) return false;
  return channels_in_vectors(problem.x_extents(), problem.x_strides, width) &&
         channels_in_vectors(problem.y_extents(), problem.y_strides, width);
}

std::optional<DepthwisePlan> plan_depthwise(const ConvProblem& problem, DepthwiseKernel kernel,
                                            const DeviceInfo& device,
                                            const DepthwiseChoice& choice) {
  if (kernel != DepthwiseKernel::march) return Planner(problem, kernel, device, choice).plan();
  DepthwisePlan plan{.kernel = kernel};
  if (!plan_march(problem, device, choice, plan)) return {};
  return plan;
}

}  // namespace plumb::cuda
