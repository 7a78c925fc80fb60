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
  const bool are_apart = problem.stride.w > 1 && problem.w > 1;
  return are_apart ? seconds_of_apart(problem, device, 6) : 0;
}
/// What joined phases take besides, as they go through workspace: 54 problems of few200 took 7
/// times dx's bytes longer than estimated in the median, on one H200.
double seconds_of_joining(const ConvProblem& problem, const DeviceInfo& device) {
  return seconds_of_apart(problem, device, 7);
}

/// What packing takes a CPU, which estimates leave out: a copy of w whose taps stay together, and
/// one that takes them from each other, of 512 x 512 7x7 filters on 2 cores.
double seconds_of_packing(std::size_t filter_bytes, bool takes_apart, const DeviceInfo& device) {
  if (device.id != host || device.nominal_bytes_per_second <= 0) return 0;
  const double times_its_bytes = takes_apart ? 34 : 18;
  return times_its_bytes * static_cast<double>(filter_bytes) / device.nominal_bytes_per_second;
}

/// The most convolutions that phases can be.
std::int64_t max_phases(const ConvProblem& p) {
  return std::min(p.stride.d, p.d) * std::min(p.stride.h, p.h) * std::min(p.stride.w, p.w);
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
  const Way way = plan_phases(one, device);
  if (of_data())
    phases_text_ = fmt::format("phases {} with strides of {}, {} and {}",
                               joined_                             ? "that are joined"
                               : way.phases == Way::Phases::copied ? "in a copy"
                                                                   : "in place",
                               way.problem.stride.d, way.problem.stride.h, way.problem.stride.w);
  if (joined_) return;
  const bool copies = way.phases == Way::Phases::copied;
  LoweredRun run(*algorithm_, way.problem, inner_.n, device, options_of_parts(), copies);
  support_ = run.support();
  if (!support_) return;
  estimate_seconds_ += run.estimate_seconds();
  if (of_data() && !copies) estimate_seconds_ += seconds_of_elements_apart(way.problem, device);
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

/// The plainest first, which is there whatever the others take. Tensors may have copies with
/// channels innermost, and phases may all be one convolution's.
std::vector<BackwardRun::Way> BackwardRun::ways(const ConvProblem& one) const {
  using Phases = Way::Phases;
  std::vector<Way> all{{.problem = one}};
  if (!of_data()) return all;
  // As many filters fill tiles by themselves, and zeros for taps take longer than dy.
  constexpr std::int64_t max_filters = 256;
  const RunOptions options = options_of_parts();
  const bool in_place_alone = options.reproducible || options.accumulate;
  if (!in_place_alone) {
    if (LoweredRun::may_copy(one)) all.push_back({one, Phases::copied});
    const std::optional<JoinedLowering> joined = lower_joined(one);
    if (joined && joined->problem.k / one.groups <= max_filters)
      all.push_back({one, Phases::joined});
  }
  const ConvProblem apart = with_taps_apart(one);
  // Of one channel of dy in a group every product is one term, and no matrix.
  if (apart.stride == one.stride || one.k == one.groups) return all;
  // A guess: more take longer to plan and to put on a queue than they spare.
  constexpr std::int64_t max_convolutions = 64;
  const bool are_few = max_phases(apart) <= max_convolutions;
  if (are_few) all.push_back({apart, Phases::in_place});
  if (in_place_alone) return all;
  if (are_few && LoweredRun::may_copy(apart)) all.push_back({apart, Phases::copied});
  // However many filters: these have few zeros beside them, those of other axes with strides.
  if (lower_joined(apart)) all.push_back({apart, Phases::joined});
  return all;
}

/// Of many images, which decide however many there are: an image has the same bits in every batch.
double BackwardRun::seconds_of_many(const Way& way, const DeviceInfo& device) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  const ConvProblem many = with_images(way.problem, 64);
  const bool is_apart = way.problem.stride != inner_.stride;
  const bool may_be_apart = with_taps_apart(inner_).stride != inner_.stride;
  const auto packing = [&](const auto& run) {
    return may_be_apart ? seconds_of_packing(run.filter_bytes(), is_apart, device) : 0;
  };
  if (way.phases == Way::Phases::joined) {
    const JoinedRun run(*algorithm_, many, *lower_joined(many), device);
    if (!run.support()) return never;
    if (!is_apart) return run.estimate_seconds() + packing(run);
    // Phases in place of the caller's strides have their like; one convolution has not.
    return run.estimate_seconds() + packing(run) + seconds_of_joining(many, device);
  }
  const bool copies = way.phases == Way::Phases::copied;
  const LoweredRun run(*algorithm_, many, many.n, device, options_of_parts(), copies);
  if (!run.support()) return never;
  return run.estimate_seconds() + packing(run) +
         (copies ? 0 : seconds_of_elements_apart(many, device));
}

/// The one that takes the least of those that can run and stay within the limit of workspace.
BackwardRun::Way BackwardRun::plan_phases(const ConvProblem& one, const DeviceInfo& device) {
  std::vector<Way> all = ways(one);
  const Way plainest = all[0];
  if (all.size() == 1) return plainest;
  for (Way& way : all) way.seconds = seconds_of_many(way, device);
  std::stable_sort(all.begin(), all.end(),
                   [](const Way& a, const Way& b) { return a.seconds < b.seconds; });
  for (const Way& way : all) {
    const bool is_plainest =
        way.phases == plainest.phases && way.problem.stride == plainest.problem.stride;
    if (is_plainest || takes(way, device)) return way;
  }
  return plainest;
}

/// Whether it can run and stays within the limit; phases that are joined are planned then.
bool BackwardRun::takes(const Way& way, const DeviceInfo& device) {
  if (way.phases != Way::Phases::joined) {
    const bool copies = way.phases == Way::Phases::copied;
    const LoweredRun run(*algorithm_, way.problem, way.problem.n, device, options_of_parts(),
                         copies);
    return run.support() && fits(run);
  }
  JoinedRun run(*algorithm_, way.problem, *lower_joined(way.problem), device);
  if (!run.support() || !fits(run)) return false;
  support_ = run.support();
  estimate_seconds_ += run.estimate_seconds() + seconds_of_joining(way.problem, device);
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
