// What the entries have in common.
#pragma once

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide_patch/wide_patch_launch.cuh"

namespace plumb::cuda {

/// `strided`: of problems whose rows or columns have a stride, and of no others.
template <class Arithmetic, bool strided>
PlanResult plan_wide_patch(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide_patch(problem, Arithmetic::host, device)};
  if (result.support && has_patch_stride(problem) != strided)
    result.support = {Reason::geometry, strided ? "no stride of rows or columns; expected one"
                                                : "a stride of rows or columns; expected 1"};
  if (!result.support) return result;
  const PatchPlan plan(problem, Arithmetic::host, device);
  result.estimate_seconds = plan.across ? plan.across->seconds : plan.tiles.seconds;
  result.workspace_bytes = plan.workspace_bytes();
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic>
void pack_wide_patch(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters<Arithmetic>(packing.problem, planned_value<PatchPlan>(plan).filters, packing.w,
                                packing.filters, packing.native_queue);
}

template <class Arithmetic, class Across>
void launch_wide_patch_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_planned_patches<Arithmetic, Across>(call.problem, planned_value<PatchPlan>(plan),
                                             {.x = call.x,
                                              .filters = call.filters,
                                              .y = call.y,
                                              .workspace = static_cast<char*>(call.workspace)},
                                             Epilogue<typename Arithmetic::Stored>(call),
                                             call.device, call.native_queue);
}

/// `Across` is the arithmetic that reads planes as they lie; where there is none, `Arithmetic`.
template <class Arithmetic, class Across = Arithmetic, bool strided = false>
constexpr ConvAlgorithm wide_patch_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = 16},
      .takes_depth = true,
      .accumulates = true,
      .plan = plan_wide_patch<Arithmetic, strided>,
      .pack_filters = pack_wide_patch<Arithmetic>,
      .launch = launch_wide_patch_algorithm<Arithmetic, Across>,
  };
}

}  // namespace plumb::cuda
