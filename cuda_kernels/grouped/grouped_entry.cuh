// What the entries have in common.
#pragma once

#include <string>

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/grouped/grouped_launch.cuh"
#include "cuda_kernels/grouped/grouped_pack.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {

template <class Stored>
PlanResult plan_grouped_algorithm(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_grouped(problem, dtype_of_stored<Stored>, device)};
  if (result.support && !deep_fits_32_bits(problem))
    result.support = {Reason::too_large,
                      "tensors that 32 bits cannot index; expected fewer than 2^31 elements"};
  if (!result.support) return result;
  const auto plan = plan_grouped(problem, device);
  if (!plan) {
    result.support = {Reason::device_limit,
                      "filters of " + std::to_string(problem.r) + "x" + std::to_string(problem.s) +
                          "; expected those of 16 or 32 outputs, and x under some outputs, to fit "
                          "shared memory"};
    return result;
  }
  result.estimate_seconds = plan->cut.seconds;
  result.filter_bytes = static_cast<std::size_t>(plan->filters.bytes());
  result.kernel = planned(*plan);
  return result;
}

template <class Stored>
void pack_grouped_algorithm(const FilterPacking& packing, const KernelPlan* plan) {
  pack_grouped_filters<Stored>(packing.problem, planned_value<GroupedPlan>(plan).filters, packing.w,
                               packing.filters, packing.native_queue);
}

template <class Stored, GroupedFault fault = GroupedFault::none>
void launch_grouped_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_grouped<Stored, fault>(planned_value<GroupedPlan>(plan), call);
}

template <class Stored, GroupedFault fault = GroupedFault::none>
constexpr ConvAlgorithm grouped_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .invariant = true,
                   .chain = grouped_chain},
      .accumulates = true,
      .plan = plan_grouped_algorithm<Stored>,
      .pack_filters = pack_grouped_algorithm<Stored>,
      .launch = launch_grouped_algorithm<Stored, fault>,
  };
}

}  // namespace plumb::cuda
