// What both ways of summing backward weights do around a block's sums: say what a plan takes, share
// blocks and parts out among threads, and add the parts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/weights/weights_bands.hpp"

namespace plumb {

/// Returns what a plan of a supported problem takes, or that it takes too much. `work` is in
/// products, of which `share` of the nominal FMA rate is reached.
template <class Real, class Plan>
PlanResult weights_result(const ConvProblem& problem, const DeviceInfo& device, Plan made,
                          double work, double share) {
  auto plan = std::make_shared<Plan>(std::move(made));
  const std::size_t least = plan->shared_bytes() + plan->slot_bytes();
  if (least > workspace_limit_bytes)
    return {.support = {Reason::too_large,
                        fmt::format("needs {} bytes for the sums and a band; expected at most {}",
                                    least, workspace_limit_bytes)}};
  PlanResult result;
  result.workspace_bytes =
      plan->shared_bytes() +
      static_cast<std::size_t>(weights_slots(problem, *plan, device)) * plan->slot_bytes();
  const double rate = share * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  result.estimate_seconds = 2 * work / rate + problem.bytes() / device.nominal_bytes_per_second;
  result.kernel = std::move(plan);
  return result;
}

/// Calls `fill(shared)` to fill in the offsets, then `sum(shared, block, part, slot)` for each
/// block of dw and part of the positions, and adds the parts where there are several. `order` is
/// the specified one that `sum` keeps, or null.
template <class Real, class Fill, class F>
void launch_weights(const ConvLaunch& launch, const WeightsPlan& plan, const GradientTree* order,
                    const Fill& fill, const F& sum) {
  const ConvProblem& problem = launch.problem;
  auto* const workspace = static_cast<std::byte*>(launch.workspace);
  const WeightsShared<Real> shared{
      .launch = launch,
      .problem = problem,
      .plan = plan,
      .kernels = weights_kernels<Real>(launch.device),
      .conv_kernels = conv_kernels<Real>(launch.device),
      .copies = channels_kernels<Real>(launch.device),
      .axes = weights_axes(problem),
      .x_readable = readable_range(problem.x_extents(), problem.x_strides),
      .offsets = reinterpret_cast<int64_t*>(workspace),
      .parts = reinterpret_cast<Real*>(workspace + plan.offsets_bytes),
      .output = WeightsOutput<Real>(launch, weights_axes(problem), order)};
  fill(shared);
  const int threads = std::min(weights_slots(problem, plan, launch.device), available_threads());
  const int64_t blocks = problem.groups * plan.k_blocks * plan.c_blocks;
  parallel_tasks(threads, blocks * plan.sum.parts, 1, [&](int64_t task, int thread) {
    const WeightsBlock block = weights_block(shared, task % blocks);
    // Blocks of rounded size may be enough before the last.
    if (block.filters <= 0 || block.channels <= 0) return;
    sum(shared, block, task / blocks,
        WeightsSlot<Real>(plan, workspace + plan.shared_bytes() +
                                    static_cast<std::size_t>(thread) * plan.slot_bytes()));
  });
  if (plan.sum.parts == 1) return;
  constexpr int64_t together = 4096;
  const int64_t weights = problem.k * shared.terms();
  parallel_for(threads, ceil_div(weights, together), [&](int64_t i) {
    shared.output.add_parts(shared.parts, plan.sum.parts, i * together,
                            std::min((i + 1) * together, weights));
  });
}

}  // namespace plumb
