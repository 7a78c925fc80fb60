// What the entries have in common.
#pragma once

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide/wide_pack.cuh"
#include "cuda_kernels/wide_mma/wide_mma_launch.cuh"

namespace plumb::cuda {

template <class Arithmetic>
PlanResult plan_wide_mma(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide_mma(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const WideMmaPlan plan(problem, Arithmetic::host, device);
  result.estimate_seconds = plan.seconds;
  result.workspace_bytes = plan.workspace_bytes;
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic>
void pack_wide_mma(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters<Arithmetic>(packing.problem, planned_value<WideMmaPlan>(plan).filters,
                                packing.w, packing.filters, packing.native_queue);
}

template <class Arithmetic, WideMmaFault fault = WideMmaFault::none>
void launch_wide_mma_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_wide_mma<Arithmetic, fault>(call.problem, planned_value<WideMmaPlan>(plan),
                                     {.x = call.x,
                                      .filters = call.filters,
                                      .y = call.y,
                                      .workspace = static_cast<char*>(call.workspace)},
                                     Epilogue<typename Arithmetic::Stored>(call),
                                     call.native_queue);
}

template <class Arithmetic, WideMmaFault fault = WideMmaFault::none>
constexpr ConvAlgorithm wide_mma_entry(std::string_view name, Operand operand) {
  constexpr bool doubles = Arithmetic::host.stored == DType::f64;
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = doubles ? Accumulator::fp64_fma : Accumulator::tensor_core_fp32,
                   .term_multiple = 16},
      .takes_depth = true,
      .accumulates = true,
      .plan = plan_wide_mma<Arithmetic>,
      .pack_filters = pack_wide_mma<Arithmetic>,
      .launch = launch_wide_mma_algorithm<Arithmetic, fault>,
  };
}

}  // namespace plumb::cuda
