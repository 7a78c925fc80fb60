// Runs algorithms, packs filters for those that want them so, and does around them what they do
// not.
#include "conv_run.hpp"

#include <algorithm>

#include "parallel/floating_point.hpp"

namespace plumb {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// What a problem asks for beyond the plain convolution.
StagesWanted asked_for(const ConvProblem& problem, bool accumulate) {
  return {.depth = problem.has_depth(),
          .boundaries = problem.boundary != Boundaries{},
          .pool = problem.pool != Pool::none,
          .accumulate = accumulate};
}

}  // namespace

ConvRun::ConvRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                 const DeviceInfo& device, bool accumulate)
    : algorithm_(&algorithm), slice_(problem) {
  const DefaultFloatingPoint mode;  // or what is planned might not be what is launched
  // What the algorithm does not claim is done around it. What it claims and then refuses is done
  // around it in the second try: the problem is that of the copy then.
  const StagesWanted asked = asked_for(problem, accumulate);
  StagesWanted wanted{.depth = asked.depth && !algorithm.takes_depth,
                      .boundaries = asked.boundaries && !algorithm.takes_boundaries,
                      .pool = asked.pool && !algorithm.fuses_pool,
                      .accumulate = asked.accumulate && !algorithm.accumulates};
  const auto plan = [&] {
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
  fuses_pool_ = asked.pool && !wanted.pool && plan_.support;
  fuses_accumulate_ = asked.accumulate && !wanted.accumulate && plan_.support;
  if (plan_.support && !stages_.none()) plan_in_stages(problem, device);
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

/// Where the filters' memory has a copy of w, it comes before the algorithm's own layout.
void ConvRun::launch_packed(BackendQueue& queue, const ConvLaunch& launch) const {
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
