// What the entries of the family have in common.
#pragma once

#include <string>

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide_weights/wide_weights_launch.cuh"

namespace plumb::cuda {

template <class Arithmetic>
PlanResult plan_wide_weights(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide_weights(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const WideWeightsPlan plan(problem, Arithmetic::host);
  constexpr std::size_t max_bytes = std::size_t{8} << 30;
  if (plan.workspace_bytes > max_bytes) {
    result.support = {Reason::too_large, "workspace of " + std::to_string(plan.workspace_bytes) +
                                             " bytes; expected at most " +
                                             std::to_string(max_bytes)};
    return result;
  }
  result.estimate_seconds = plan.seconds(device);
  result.workspace_bytes = plan.workspace_bytes;
  result.kernel = planned(plan);
  return result;
}

inline WideWeightsCall wide_weights_call(const ConvLaunch& call) {
  return {.x = call.x,
          .dy = call.w,
          .dw = call.y,
          .workspace = static_cast<char*>(call.workspace),
          .accumulate = call.accumulate};
}

template <class Arithmetic>
void launch_wide_weights_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_planned_weights<Arithmetic>(planned_value<WideWeightsPlan>(plan), wide_weights_call(call),
                                     call.device, call.native_queue);
}

template <class Arithmetic>
double chain_of_wide_weights(const ConvProblem& problem) {
  return wide_weights_chain(problem, Arithmetic::host);
}

template <class Arithmetic>
constexpr ConvAlgorithm wide_weights_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Arithmetic::products,
                   .term_multiple = weights_block<Arithmetic>,
                   .chain = chain_of_wide_weights<Arithmetic>},
      .takes_depth = true,
      .accumulates = true,
      .takes_backward_weights = true,
      .plan = plan_wide_weights<Arithmetic>,
      .launch = launch_wide_weights_algorithm<Arithmetic>,
  };
}

}  // namespace plumb::cuda
