// What the entries of the wide kernel have in common.
#pragma once

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide/wide_launch.cuh"

namespace plumb::cuda {

template <class Arithmetic>
PlanResult plan_wide_algorithm(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const WidePlan plan(problem, Arithmetic::host, device);
  result.estimate_seconds = plan.across ? plan.across->seconds : plan.tiles.seconds;
  result.workspace_bytes = plan.workspace.bytes;
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic>
void pack_wide_algorithm(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters<Arithmetic>(packing.problem, planned_value<WidePlan>(plan).filters, packing.w,
                                packing.filters, packing.native_queue);
}

inline WideCall wide_call(const ConvLaunch& call) {
  return {.x = call.x,
          .filters = call.filters,
          .y = call.y,
          .workspace = static_cast<char*>(call.workspace)};
}

template <class Arithmetic>
void launch_wide_algorithm(const ConvLaunch& call, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<WidePlan>(kernel_plan);
  using Stored = typename Arithmetic::Stored;
  if constexpr (!Arithmetic::host.scales()) {
    using Across = WideArithmetic<Stored, Stored, Arithmetic::products, true>;
    if (launch_wide_across<Across>(call.problem, plan, wide_call(call), Epilogue<Stored>(call),
                                   [&](const WideParams<Across>& params, bool early) {
                                     with_shape<Across>(plan.across->shape, [&]<int shape>() {
                                       launch_tiles<Across, shape>(params, early, call.device,
                                                                   call.native_queue);
                                     });
                                   }))
      return;
  }
  launch_wide<Arithmetic>(call.problem, plan, wide_call(call), Epilogue<Stored>(call),
                          call.native_queue, [&](const WideParams<Arithmetic>& params, bool early) {
                            with_shape<Arithmetic>(plan.tiles.shape, [&]<int shape>() {
                              launch_tiles<Arithmetic, shape>(params, early, call.device,
                                                              call.native_queue);
                            });
                          });
}

template <class Arithmetic>
constexpr ConvAlgorithm wide_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Arithmetic::products,
                   .term_multiple = 16},
      .takes_depth = true,
      .accumulates = true,
      .plan = plan_wide_algorithm<Arithmetic>,
      .pack_filters = pack_wide_algorithm<Arithmetic>,
      .launch = launch_wide_algorithm<Arithmetic>,
  };
}

}  // namespace plumb::cuda
