// What the entries have in common.
#pragma once

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/pointwise/pointwise_launch.cuh"
#include "cuda_kernels/pointwise/pointwise_pack.cuh"

namespace plumb::cuda {

template <class Arithmetic>
PlanResult plan_pointwise(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_pointwise(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const PointwisePlan plan(problem, Arithmetic::host, device);
  result.estimate_seconds = plan.seconds;
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic>
void pack_pointwise_algorithm(const FilterPacking& packing, const KernelPlan* plan) {
  pack_pointwise_filters<Arithmetic>(packing.problem, planned_value<PointwisePlan>(plan).filters,
                                     packing.w, packing.filters, packing.native_queue);
}

template <class Arithmetic, PointwiseFault fault = PointwiseFault::none>
void launch_pointwise_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_pointwise<Arithmetic, fault>(call.problem, planned_value<PointwisePlan>(plan),
                                      {.x = call.x, .filters = call.filters, .y = call.y},
                                      Epilogue<typename Arithmetic::Stored>(call),
                                      call.native_queue);
}

template <class Arithmetic, PointwiseFault fault = PointwiseFault::none>
constexpr ConvAlgorithm pointwise_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Arithmetic::host.products,
                   .term_multiple = 16},
      .takes_depth = true,
      .accumulates = true,
      .plan = plan_pointwise<Arithmetic>,
      .pack_filters = pack_pointwise_algorithm<Arithmetic>,
      .launch = launch_pointwise_algorithm<Arithmetic, fault>,
  };
}

}  // namespace plumb::cuda
