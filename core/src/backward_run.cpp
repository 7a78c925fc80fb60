#include "backward_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "boundary_padding.hpp"
#include "channel_values.hpp"
#include "fold.hpp"
#include "forward_only.hpp"
#include "ranks.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

/// Images behind each other that do not overlap, in a layout that may have been of one.
void spread_images(const Extents& extents, Strides& strides) {
  std::int64_t reach = 0;
  for (int i = 1; i < extents.rank(); ++i) reach += (extents[i] - 1) * std::abs(strides[i]);
  if (std::abs(strides[0]) <= reach) strides[0] = reach + 1;
}

/// Another number of images of the same layout.
ConvProblem with_images(ConvProblem problem, std::int64_t images) {
  problem.n = images;
  spread_images(problem.x_extents(), problem.x_strides);
  spread_images(problem.y_extents(), problem.y_strides);
  return problem;
}

/// The time of so many times dx's bytes, on a GPU, where dx's channels are not innermost.
double seconds_of_apart(const ConvProblem& problem, const DeviceInfo& device,
                        double times_its_bytes) {
  const bool innermost = problem.c > 1 && output_of(problem).strides[1] == 1;
  if (device.id == host || device.nominal_bytes_per_second <= 0 || innermost) return 0;
  return times_its_bytes * static_cast<double>(bytes_of(problem.dtype, problem.x_extents())) /
         device.nominal_bytes_per_second;
}
/// What it takes a GPU that phases write single elements of rows, and so parts of all sectors: two
/// layers took 7 and 18 times their bytes on one H100 (docs/experiments/gradients.md).
double seconds_of_elements_apart(const ConvProblem& problem, const DeviceInfo& device) {
  return problem.stride.w == 1 ? 0 : seconds_of_apart(problem, device, 6);
}
/// What joined phases take besides, as they go through workspace: 54 problems of few200 took 7
/// times dx's bytes longer than estimated in the median, on one H200.
double seconds_of_joining(const ConvProblem& problem, const DeviceInfo& device) {
  return seconds_of_apart(problem, device, 7);
}

}  // namespace

BackwardRun::BackwardRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                         const DeviceInfo& device, const RunOptions& options)
    : algorithm_(&algorithm), problem_(problem), options_(options) {
  const bool takes = of_data() ? algorithm.takes_backward_data : algorithm.takes_backward_weights;
  if (!takes && algorithm.forward_alone) {
    support_ = forward_only(problem);
    return;
  }
  // What it takes and then refuses is made of forward convolutions.
  if (!takes || !plan_by_itself(device)) {
    if (algorithm.forward_alone) return;
    plan_forward(device);
  }
  if (!support_) return;
  fuses_accumulate_ = options_.accumulate && !stages_output_;
  count_staging(device);
}

Support BackwardRun::reproduces() const {
  if (!itself_ && !of_data())
    return {Reason::not_reproducible,
            "makes dw of forward convolutions, each sum a chain of all terms; expected the tree of "
            "docs/numerics.md"};
  if (lowered_ && !lowered_->reproduces()) return lowered_->reproduces();
  if (joined_) return joined_->convolution().reproduces();
  if (!itself_) return {};
  const DType own =
      algorithm_->numerics.accumulator == Accumulator::fp64_fma ? DType::f64 : DType::f32;
  if (options_.accumulate && stages_output_ && !pads() && problem_.dtype != own)
    return {Reason::not_reproducible,
            fmt::format("rounds to {} before it adds what {} holds; expected one rounding",
                        to_string(problem_.dtype), output_of(problem_).name)};
  return bits_of_itself_;
}

/// What is computed inside of the copies.
void BackwardRun::set_inner(bool stages_output) {
  stages_output_ = stages_output;
  inner_ = problem_;
  if (pads()) {
    take_padding(inner_);
    inner_.x_strides = {};
  }
  if (options_.relu_mask) inner_.y_strides = {};
  if (stages_output_) (of_data() ? inner_.x_strides : inner_.w_strides) = {};
  inner_ = check(inner_);
  const auto bytes = [&](bool is_there, const Extents& extents) {
    return is_there ? aligned(bytes_of(inner_.dtype, extents)) : 0;
  };
  staged_bytes_ = bytes(stages_output_, output_of(inner_).extents);
  padded_bytes_ = bytes(copies_input(), inner_.x_extents());
  masked_bytes_ = bytes(options_.relu_mask, inner_.y_extents());
}

bool BackwardRun::plan_by_itself(const DeviceInfo& device) {
  set_inner((pads() && of_data()) || (options_.accumulate && !algorithm_->accumulates));
  PlanResult plan = algorithm_->plan(inner_, device);
  support_ = plan.support;
  if (!plan.support) return false;
  estimate_seconds_ = plan.estimate_seconds;
  own_workspace_bytes_ = plan.workspace_bytes;
  if (algorithm_->reproduces) bits_of_itself_ = algorithm_->reproduces(inner_, device);
  itself_ = std::move(plan);
  return true;
}

void BackwardRun::plan_forward(const DeviceInfo& device) {
  set_inner(pads() && of_data());
  ConvProblem one = inner_;
  one.n = std::max<std::int64_t>(one.n, 1);  // the gradient of no images is a sum of nothing
  const RunOptions options = options_of_parts();
  const bool copies = plan_phases(one, device);
  if (joined_) return;
  LoweredRun run(*algorithm_, one, inner_.n, device, options, copies);
  support_ = run.support();
  if (!support_) return;
  estimate_seconds_ += run.estimate_seconds();
  if (of_data() && !copies) estimate_seconds_ += seconds_of_elements_apart(one, device);
  own_workspace_bytes_ = std::max(own_workspace_bytes_, run.workspace_bytes());
  lowered_.emplace(std::move(run));
}

RunOptions BackwardRun::options_of_parts() const {
  const std::size_t limit = options_.workspace_limit_bytes,
                    staging = staged_bytes_ + padded_bytes_ + masked_bytes_;
  return {.accumulate = options_.accumulate && !stages_output_,
          .reproducible = options_.reproducible,
          .workspace_limit_bytes = limit - std::min(limit, staging)};
}

/// Whether phases have copies of tensors with channels innermost, or are all one convolution's.
/// Many images decide, however many there are: an image has the same bits in every batch.
bool BackwardRun::plan_phases(const ConvProblem& one, const DeviceInfo& device) {
  const RunOptions options = options_of_parts();
  if (!of_data() || options.reproducible || options.accumulate) return false;
  const ConvProblem many = with_images(one, 64);
  std::optional<JoinedLowering> joined = lower_joined(many);
  // As many filters fill tiles by themselves, and zeros for taps take longer than dy.
  constexpr std::int64_t max_filters = 256;
  if (joined && joined->problem.k / one.groups > max_filters) joined.reset();
  const bool may_copy = LoweredRun::may_copy(many);
  if (!joined && !may_copy) return false;
  const auto seconds = [&](bool copies) {
    const LoweredRun run(*algorithm_, many, many.n, device, options, copies);
    return run.support() ? run.estimate_seconds() : std::numeric_limits<double>::infinity();
  };
  const double as_they_lie = seconds(false) + seconds_of_elements_apart(many, device);
  const double copied = may_copy ? seconds(true) : std::numeric_limits<double>::infinity();
  if (joined && plan_joined(one, many, *joined, std::min(as_they_lie, copied), device))
    return false;
  return copied < as_they_lie && fits(LoweredRun(*algorithm_, one, one.n, device, options, true));
}

/// Whether all phases are one convolution's, which is to take less than `seconds` of many images.
bool BackwardRun::plan_joined(const ConvProblem& one, const ConvProblem& many,
                              const JoinedLowering& joined, double seconds,
                              const DeviceInfo& device) {
  const JoinedRun run_of_many(*algorithm_, many, joined, device);
  if (!run_of_many.support() || seconds <= run_of_many.estimate_seconds()) return false;
  JoinedRun run(*algorithm_, one, *lower_joined(one), device);
  support_ = run.support();
  if (!support_ || !fits(run)) return false;
  estimate_seconds_ += run.estimate_seconds() + seconds_of_joining(one, device);
  own_workspace_bytes_ = std::max(own_workspace_bytes_, run.workspace_bytes());
  joined_.emplace(std::move(run));
  return true;
}

void BackwardRun::count_staging(const DeviceInfo& device) {
  const double bytes = 2 * static_cast<double>(staged_bytes_ + padded_bytes_) +
                       3 * static_cast<double>(masked_bytes_);
  if (device.nominal_bytes_per_second > 0)
    estimate_seconds_ += bytes / device.nominal_bytes_per_second;
}

std::size_t BackwardRun::filter_bytes() const {
  if (itself_) return itself_->filter_bytes;
  return joined_ ? joined_->filter_bytes() : lowered_ ? lowered_->filter_bytes() : 0;
}

void BackwardRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                       void* filters) const {
  if (itself_) {
    queue.pack_filters(*algorithm_,
                       {.problem = inner_,
                        .device = device,
                        .w = w,
                        .filters = filters,
                        .native_queue = queue.native()},
                       itself_->kernel.get());
    return;
  }
  if (joined_) return joined_->pack(queue, device, w, filters);
  lowered_->pack(queue, device, w, filters);
}

void BackwardRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  auto* const masked = static_cast<std::byte*>(launch.workspace);
  auto* const padded = masked + masked_bytes_;
  auto* const staged = padded + padded_bytes_;
  ConvLaunch inner{.problem = inner_,
                   .device = launch.device,
                   .x = launch.x,
                   .w = launch.w,
                   .filters = launch.filters,
                   .bias = stages_output_ ? nullptr : launch.bias,
                   .y = stages_output_ ? staged : launch.y,
                   .activation = stages_output_ ? Activation::none : launch.activation,
                   .accumulate = launch.accumulate && !stages_output_,
                   .reproducible = launch.reproducible,
                   .workspace = own_workspace_bytes_ > 0 ? staged + staged_bytes_ : nullptr,
                   .native_queue = launch.native_queue};
  if (options_.relu_mask) {
    mask(queue, launch, masked);
    (of_data() ? inner.x : inner.w) = masked;
  }
  if (launch.db) sum_bias_gradient(queue, launch, inner.w);
  if (copies_input()) {
    pad_input(queue, launch, padded);
    inner.x = padded;
  }
  if (itself_)
    queue.conv(*algorithm_, inner, itself_->kernel.get());
  else if (lowered_)
    lowered_->launch(queue, inner);
  else if (inner_.n > 0)
    joined_->launch(queue, inner);
  if (stages_output_) deliver(queue, launch, staged);
}

/// A dense copy of dy with zeros where the ReLU's output is not above 0.
void BackwardRun::mask(BackendQueue& queue, const ConvLaunch& launch, void* to) const {
  const ConvProblem& p = problem_;
  const Extents extents = p.y_extents();
  const DeviceId& device = launch.device.id;
  queue.relu_backward(
      with_all_axes(ConstTensorView(launch.mask, p.dtype, extents, device, launch.mask_strides)),
      with_all_axes(
          ConstTensorView(of_data() ? launch.x : launch.w, p.dtype, extents, device, p.y_strides)),
      with_all_axes(TensorView(to, p.dtype, extents, device)));
}

/// Of dy as the convolution has it.
void BackwardRun::sum_bias_gradient(BackendQueue& queue, const ConvLaunch& launch,
                                    const void* dy) const {
  const ConvProblem& p = inner_;
  const DeviceId& device = launch.device.id;
  queue.sum_channels(
      {.x = with_all_axes(ConstTensorView(dy, p.dtype, p.y_extents(), device, p.y_strides)),
       .y = TensorView(launch.db, p.dtype, {p.k}, device),
       .accumulate = launch.accumulate});
}

/// A copy of x with its padding.
void BackwardRun::pad_input(BackendQueue& queue, const ConvLaunch& launch, void* to) const {
  const ConvProblem& p = problem_;
  const DeviceId& device = launch.device.id;
  const Triple before = padding_taken(p);
  queue.pad(
      {.x = with_all_axes(ConstTensorView(launch.x, p.dtype, p.x_extents(), device, p.x_strides)),
       .y = with_all_axes(TensorView(to, p.dtype, inner_.x_extents(), device)),
       .begin = {-before.d, -before.h, -before.w},
       .boundary = p.boundary});
}

/// What was staged becomes the output, with what else is asked for.
void BackwardRun::deliver(BackendQueue& queue, const ConvLaunch& launch, void* from) const {
  const ConvOperand whole = output_of(problem_), inner = output_of(inner_);
  const DeviceId& device = launch.device.id;
  const TensorView output =
      with_all_axes(TensorView(launch.y, problem_.dtype, whole.extents, device, whole.strides));
  TensorView staged =
      with_all_axes(TensorView(from, problem_.dtype, inner.extents, device, inner.strides));
  if (of_data() && pads()) {
    const Triple before = padding_taken(problem_);
    fold(queue, staged, output.extents(), before, problem_.boundary);
    const std::int64_t begin[] = {before.d, before.h, before.w};
    for (int axis = 2; axis < 5; ++axis)
      staged = slice(staged, axis, begin[axis - 2], output.extent(axis));
  }
  if (!launch.accumulate && !launch.bias) {
    queue.pad({.x = staged, .y = output});
    if (launch.activation == Activation::relu) queue.relu(output, output);
    return;
  }
  // The bias first, and what the output held last, as in a kernel that adds by itself.
  if (!launch.accumulate)
    fill(queue, output, launch.bias);
  else if (launch.bias)
    queue.add({.x = broadcast(launch.bias, output.dtype(), output.extents(), device), .y = staged});
  queue.add({.x = staged, .y = output, .activation = launch.activation});
}

}  // namespace plumb
