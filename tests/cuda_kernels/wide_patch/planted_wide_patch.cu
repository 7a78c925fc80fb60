#include "planted_wide_patch.hpp"

#include <algorithm>

#include "cuda_kernels/wide_patch/wide_patch_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// Tiles of 208 positions: lines as long as those of y, whose padding lies behind each other.
constexpr int copied_kernel = 2;
static_assert(patch_n8_tiles[copied_kernel] == 26);

PatchPlan plan_of(const ConvProblem& problem, const DeviceInfo& device) {
  constexpr std::int64_t rows = 5;
  PatchPlan plan(problem, WideFp16::host, device,
                 {.rows = static_cast<int>(std::min(problem.p(), rows)),
                  .columns = static_cast<int>(problem.q())});
  if (plan.tiles.kernel >= 0) plan.tiles.kernel = std::max(plan.tiles.kernel, copied_kernel);
  return plan;
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide_patch(problem, WideFp16::host, device)};
  if (!result.support) return result;
  const PatchPlan plan = plan_of(problem, device);
  if (plan.tiles.kernel != copied_kernel)
    return {.support = {Reason::geometry, "lines of " + std::to_string(problem.q()) +
                                              " outputs; expected some of 208 positions"}};
  result.estimate_seconds = plan.tiles.seconds;
  result.workspace_bytes = plan.workspace_bytes();
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <PatchFault fault>
void launch(const ConvLaunch& call, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<PatchPlan>(kernel_plan);
  launch_wide_patch<WideFp16>(call.problem, plan,
                              {.x = call.x,
                               .filters = call.filters,
                               .y = call.y,
                               .workspace = static_cast<char*>(call.workspace)},
                              Epilogue<__half>(call), call.native_queue,
                              [&](const PatchParams<WideFp16>& params, bool early) {
                                launch_patches<WideFp16, copied_kernel, fault>(
                                    params, plan.tiles, early, call.device, call.native_queue);
                              });
}

template <PatchFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  ConvAlgorithm algorithm = wide_patch_entry<WideFp16>("cuda.conv.wide_patch.fp16", Operand::fp16);
  algorithm.plan = plan;
  algorithm.launch = launch<fault>;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> wide_patch_copies() {
  return {copy_with<PatchFault::none>(""),
          copy_with<PatchFault::wrong_shift>("wrong_shift"),
          copy_with<PatchFault::stale_patch>("stale_patch"),
          copy_with<PatchFault::lost_stage>("lost_stage"),
          copy_with<PatchFault::missed_column>("missed_column"),
          copy_with<PatchFault::no_zeros>("no_zeros"),
          copy_with<PatchFault::lost_phase>("lost_phase"),
          copy_with<PatchFault::other_phase>("other_phase"),
          copy_with<PatchFault::wrong_begin>("wrong_begin")};
}

}  // namespace plumb_test
