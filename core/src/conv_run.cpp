// Runs algorithms, packs filters for those that want them so, and does around them what they do
// not.
#include "conv_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backward_run.hpp"
#include "depth_segments.hpp"
#include "parallel/floating_point.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

/// What a problem asks for beyond the plain convolution.
StagesWanted asked_for(const ConvProblem& problem, const RunOptions& options) {
  return {.depth = problem.has_depth(),
          .boundaries = problem.boundary != Boundaries{},
          .pool = problem.pool != Pool::none,
          .accumulate = options.accumulate,
          .in_order = options.reproducible};
}

}  // namespace

ConvRun::ConvRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                 const DeviceInfo& device, const RunOptions& options)
    : algorithm_(&algorithm), options_(options), has_depth_(problem.has_depth()), slice_(problem) {
  const DefaultFloatingPoint mode;  // or what is planned might not be what is launched
  if (problem.direction == Direction::forward)
    plan_forward(problem, device);
  else
    plan_backward(device);
  if (!plan_.support) return;
  reproduces_ = bits_of(device);
  if (options_.reproducible && !reproduces_) plan_.support = reproduces_;
}

/// Why the bits are not those that are specified.
Support ConvRun::bits_of(const DeviceInfo& device) const {
  if (!algorithm_->numerics.reproducible)
    return {Reason::not_reproducible,
            "sums in another order than the one that docs/numerics.md specifies"};
  if (backward_) return backward_->reproduces();
  for (const Segment& one : segments_)
    if (!one.run.reproduces()) return one.run.reproduces();
  // What is rounded to 16 bits on its way through workspace is rounded twice.
  const DType own =
      algorithm_->numerics.accumulator == Accumulator::fp64_fma ? DType::f64 : DType::f32;
  if (options_.accumulate && !fuses_accumulate_ && slice_.dtype != own)
    return {Reason::not_reproducible,
            fmt::format("rounds to {} before it adds what y holds; expected one rounding",
                        to_string(slice_.dtype))};
  if (!segments_.empty() || !algorithm_->reproduces) return {};
  const Support whole = algorithm_->reproduces(slice_, device);
  const bool has_last = !stages_.none() && stages_.last_slices() > 0;
  return whole && has_last ? algorithm_->reproduces(stages_.last_slice(), device) : whole;
}

void ConvRun::plan_forward(const ConvProblem& problem, const DeviceInfo& device) {
  const ConvAlgorithm& algorithm = *algorithm_;
  // What the algorithm does not claim is done around it. What it claims and then refuses is done
  // around it in the second try: the problem is that of the copy then.
  const StagesWanted asked = asked_for(problem, options_);
  StagesWanted wanted{.depth = asked.depth && !algorithm.takes_depth,
                      .boundaries = asked.boundaries && !algorithm.takes_boundaries,
                      .pool = asked.pool && !algorithm.fuses_pool,
                      .accumulate = asked.accumulate && !algorithm.accumulates,
                      .in_order = asked.in_order};
  const auto plan = [&] {
    if (wanted.depth && pads_depth_with_zeros(problem)) return plan_in_segments(problem, device);
    stages_ = ConvStages(problem, wanted, device);
    slice_ = stages_.slice();
    plan_ = algorithm_->plan(slice_, device);
  };
  plan();
  const bool has_more = (asked.depth && !wanted.depth) ||
                        (asked.boundaries && !wanted.boundaries) || (asked.pool && !wanted.pool);
  if (!plan_.support && has_more) {
    const Support refused = plan_.support;
    wanted.depth = asked.depth, wanted.boundaries = asked.boundaries, wanted.pool = asked.pool;
    plan();
    if (!plan_.support) plan_.support = refused;
  }
  if (!segments_.empty()) return;
  fuses_pool_ = asked.pool && !wanted.pool && plan_.support;
  fuses_accumulate_ = asked.accumulate && !wanted.accumulate && plan_.support;
  if (plan_.support && !stages_.none()) plan_in_stages(problem, device);
}

void ConvRun::plan_backward(const DeviceInfo& device) {
  backward_ = std::make_shared<const BackwardRun>(*algorithm_, slice_, device, options_);
  plan_.support = backward_->support();
  plan_.estimate_seconds = backward_->estimate_seconds();
  fuses_accumulate_ = backward_->fuses_accumulate();
}

/// Planes whose windows reach into the padding along the depth have fewer taps: zeros in their
/// place would meet the filter, and 0 * Inf is NaN.
void ConvRun::plan_in_segments(const ConvProblem& problem, const DeviceInfo& device) {
  slice_ = problem;
  stages_ = {};
  plan_ = {};
  fuses_accumulate_ = options_.accumulate;
  for (const DepthSegment& one : depth_segments(problem)) {
    ConvRun run(*algorithm_, one.problem, device, options_);
    plan_.support = run.support();
    if (!plan_.support) {
      segments_.clear();
      return;
    }
    plan_.estimate_seconds += run.estimate_seconds();
    fuses_accumulate_ = fuses_accumulate_ && run.fuses_accumulate();
    segments_.push_back({std::move(run), one.problem, one.x, one.w, one.y});
  }
}

bool ConvRun::invariant() const {
  return algorithm_->numerics.invariant && slice_.direction != Direction::backward_weights;
}

bool ConvRun::copies_input() const {
  return stages_.copies_input() || (backward_ && backward_->copies_input()) ||
         std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& one) { return one.run.copies_input(); });
}

std::int64_t ConvRun::forward_convolutions() const {
  return backward_ ? backward_->forward_convolutions() : 0;
}

std::string ConvRun::phases_text() const { return backward_ ? backward_->phases_text() : ""; }

std::size_t ConvRun::Segment::copy_bytes() const {
  return aligned(bytes_of(problem.dtype, problem.w_extents()));
}

std::size_t ConvRun::filter_bytes() const {
  if (backward_) return backward_->filter_bytes();
  std::size_t bytes = stages_.filter_bytes() + plan_.filter_bytes;
  for (const Segment& one : segments_) bytes += one.copy_bytes() + aligned(one.run.filter_bytes());
  return bytes;
}

std::size_t ConvRun::packed_workspace_bytes() const {
  if (backward_) return backward_->workspace_bytes();
  std::size_t bytes = stages_.bytes() + plan_.workspace_bytes;
  for (const Segment& one : segments_) bytes = std::max(bytes, one.run.packed_workspace_bytes());
  return bytes;
}

void ConvRun::plan_in_stages(const ConvProblem& problem, const DeviceInfo& device) {
  plan_.estimate_seconds *= static_cast<double>(stages_.slices());
  if (problem.n > 0 && stages_.last_slices() > 0) {
    const PlanResult last = algorithm_->plan(stages_.last_slice(), device);
    if (!last.support) {
      plan_ = last;
      return;
    }
    last_kernel_ = last.kernel;
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, last.workspace_bytes);
    plan_.estimate_seconds += last.estimate_seconds * static_cast<double>(stages_.last_slices());
  }
  plan_.estimate_seconds += stages_.seconds(device);
}

std::size_t ConvRun::workspace_bytes() const {
  const std::size_t without = packed_workspace_bytes();
  return filter_bytes() > 0 ? aligned(without) + filter_bytes() : without;
}

void ConvRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                   void* filters) const {
  const DefaultFloatingPoint mode;
  if (backward_) return backward_->pack(queue, device, w, filters);
  if (!segments_.empty()) return pack_segments(queue, device, w, filters);
  if (stages_.filter_bytes() > 0) {
    stages_.copy_filters(queue, device, w, filters);
    w = filters;
    filters = static_cast<std::byte*>(filters) + stages_.filter_bytes();
  }
  if (plan_.filter_bytes == 0) return;
  queue.pack_filters(*algorithm_,
                     {.problem = launched(),
                      .device = device,
                      .w = w,
                      .filters = filters,
                      .native_queue = queue.native()},
                     plan_.kernel.get());
}

void ConvRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  const DefaultFloatingPoint mode;
  if (filter_bytes() == 0 || launch.filters) return launch_packed(queue, launch);
  void* const filters =
      static_cast<std::byte*>(launch.workspace) + aligned(packed_workspace_bytes());
  pack(queue, launch.device, launch.w, filters);
  ConvLaunch packed = launch;
  packed.w = nullptr;
  packed.filters = filters;
  launch_packed(queue, packed);
}

/// For each a dense copy of its planes, then the algorithm's own layout of them.
void ConvRun::pack_segments(BackendQueue& queue, const DeviceInfo& device, const void* w,
                            void* filters) const {
  auto* to = static_cast<std::byte*>(filters);
  for (const Segment& one : segments_) {
    const ConvProblem& p = one.problem;
    const Extents planes{p.k, p.c / p.groups, p.t, p.r, p.s};
    queue.pad({.x = ConstTensorView(moved(w, one.w, p.dtype), p.dtype, planes, device.id,
                                    slice_.w_strides),
               .y = TensorView(to, p.dtype, planes, device.id)});
    const void* const copy = to;
    to += one.copy_bytes();
    if (one.run.filter_bytes() > 0) one.run.pack(queue, device, copy, to);
    to += aligned(one.run.filter_bytes());
  }
}

void ConvRun::launch_segments(BackendQueue& queue, const ConvLaunch& launch) const {
  const auto* filters = static_cast<const std::byte*>(launch.filters);
  for (const Segment& one : segments_) {
    const DType dtype = one.problem.dtype;
    const std::size_t bytes = one.run.filter_bytes();
    const std::byte* const own = filters + one.copy_bytes();
    one.run.launch_packed(queue, {.problem = one.problem,
                                  .device = launch.device,
                                  .x = moved(launch.x, one.x, dtype),
                                  .w = filters,
                                  .filters = bytes > 0 ? own : nullptr,
                                  .bias = launch.bias,
                                  .y = moved(launch.y, one.y, dtype),
                                  .activation = launch.activation,
                                  .accumulate = launch.accumulate,
                                  .reproducible = launch.reproducible,
                                  .workspace = launch.workspace,
                                  .native_queue = launch.native_queue});
    filters = own + aligned(bytes);
  }
}

/// Where the filters' memory has a copy of w, it comes before the algorithm's own layout.
void ConvRun::launch_packed(BackendQueue& queue, const ConvLaunch& launch) const {
  if (backward_) return backward_->launch(queue, launch);
  if (!segments_.empty()) return launch_segments(queue, launch);
  if (stages_.none()) return queue.conv(*algorithm_, launch, plan_.kernel.get());
  ConvLaunch of_all = launch;
  if (stages_.filter_bytes() > 0) {
    of_all.w = launch.filters;
    of_all.filters = plan_.filter_bytes > 0
                         ? static_cast<const std::byte*>(launch.filters) + stages_.filter_bytes()
                         : nullptr;
  }
  auto* const own_workspace = static_cast<std::byte*>(launch.workspace) + stages_.bytes();
  stages_.run(queue, of_all, [&](ConvLaunch& slice, bool is_last) {
    slice.workspace = plan_.workspace_bytes > 0 ? own_workspace : nullptr;
    queue.conv(*algorithm_, slice, (is_last ? last_kernel_ : plan_.kernel).get());
  });
}

}  // namespace plumb
