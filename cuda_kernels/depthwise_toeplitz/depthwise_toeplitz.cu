// The entries of the family: which convolutions they compute, in which arithmetic.
#include <string>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

template <DType stored>
Support supports(const ConvProblem& p) {
  if (const Support of_type = supports_dtypes({stored}, p); !of_type) return of_type;
  if (p.groups != p.c || p.groups < 2 || p.k != p.c)
    return {Reason::geometry, std::to_string(p.groups) + " groups of " + std::to_string(p.c) +
                                  " channels and " + std::to_string(p.k) +
                                  " filters; expected several groups of a channel and a filter "
                                  "each"};
  if (!deep_fits_32_bits(p))
    return {Reason::too_large,
            "tensors that 32 bits cannot index; expected fewer than 2^31 elements"};
  return {};
}

template <DType stored>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports<stored>(problem)};
  if (!result.support || problem.n == 0) return result;
  const auto planned_cut = plan_depthwise_toeplitz(problem, device);
  if (!planned_cut) {
    result.support = {Reason::device_limit,
                      "filters of " + std::to_string(problem.r) + "x" + std::to_string(problem.s) +
                          "; expected them and the input of 16 x 8 outputs to fit shared memory"};
    return result;
  }
  result.estimate_seconds = planned_cut->seconds;
  result.kernel = planned(*planned_cut);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* kernel) {
  const auto& plan = planned_value<DepthwiseToeplitzPlan>(kernel);
  if (call.problem.dtype == DType::f16)
    launch_depthwise_toeplitz_f16(plan, call);
  else
    launch_depthwise_toeplitz_bf16(plan, call);
}

template <DType stored>
constexpr ConvAlgorithm entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .invariant = true,
                   .chain = depthwise_toeplitz_chain},
      .accumulates = true,
      .plan = plan<stored>,
      .launch = launch,
  };
}

}  // namespace

extern const ConvAlgorithm depthwise_fp16_toeplitz =
    entry<DType::f16>("cuda.conv.depthwise.fp16.toeplitz", Operand::fp16);
extern const ConvAlgorithm depthwise_bf16_toeplitz =
    entry<DType::bf16>("cuda.conv.depthwise.bf16.toeplitz", Operand::bf16);

}  // namespace plumb::cuda
