// The entries of the family: which gradients it computes, and what a launch tells its kernels.
#include "cuda_kernels/depthwise_weights/depthwise_weights.hpp"

#include <fmt/format.h>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/weights.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

template <class Real>
Support supports(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            fmt::format("{}; expected backward weights", to_string(problem.direction))};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  const Support of_dtype = sizeof(Real) == 8
                               ? supports_dtypes({DType::f64}, forward)
                               : supports_dtypes({DType::f32, DType::f16, DType::bf16}, forward);
  if (!of_dtype) return of_dtype;
  if (problem.groups != problem.c || problem.c < 2)
    return {Reason::geometry,
            fmt::format("{} groups of {} channels; expected filters of one channel", problem.groups,
                        problem.c)};
  return {};
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports<Real>(problem)};
  if (!result.support) return result;
  const auto planned_weights = plan_depthwise_weights(problem);
  if (!planned_weights) {
    result.support = {
        Reason::geometry,
        fmt::format("strides of {}x{}, dilations of {}x{}; expected strides of 1 or 2, the same "
                    "along both axes, and no dilation beside 2, of tensors of fewer than 2^31 "
                    "elements",
                    problem.stride.h, problem.stride.w, problem.dilation.h, problem.dilation.w)};
    return result;
  }
  const DepthwiseWeightsCut& cut = planned_weights->cut;
  result.support = fits_shared_memory(static_cast<double>(cut.shared_bytes), device);
  if (!result.support) return result;
  result.workspace_bytes = static_cast<std::size_t>(cut.parts) *
                           static_cast<std::size_t>(planned_weights->weights.sizes.weights()) *
                           sizeof(Real);
  result.estimate_seconds = weights_seconds(problem, device, cut.clocks, sizeof(Real));
  result.kernel = planned(*planned_weights);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const auto& weights = planned_value<DepthwiseWeightsPlan>(plan);
  const WeightsCall with{.x = call.x,
                         .dy = call.w,
                         .dw = call.y,
                         .parts = call.workspace,
                         .accumulate = call.accumulate};
  switch (call.problem.dtype) {
    case DType::f32: return launch_depthwise_weights_f32(weights, with, call.native_queue);
    case DType::f64: return launch_depthwise_weights_f64(weights, with, call.native_queue);
    case DType::f16: return launch_depthwise_weights_f16(weights, with, call.native_queue);
    case DType::bf16: return launch_depthwise_weights_bf16(weights, with, call.native_queue);
  }
}

/// Where the algorithm refuses, the chain is that of all terms.
template <class Real>
double chain(const ConvProblem& problem) {
  if (supports<Real>(problem))
    if (const auto weights = plan_depthwise_weights(problem))
      return depthwise_weights_chain(*weights);
  return static_cast<double>(problem.terms());
}

}  // namespace

extern const ConvAlgorithm depthwise_weights_fp32{
    .name = "cuda.conv.depthwise_weights.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .chain = chain<float>},
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan<float>,
    .launch = launch,
};

extern const ConvAlgorithm depthwise_weights_fp64{
    .name = "cuda.conv.depthwise_weights.fp64",
    .numerics = {.operand = Operand::fp64,
                 .accumulator = Accumulator::fp64_fma,
                 .chain = chain<double>},
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan<double>,
    .launch = launch,
};

}  // namespace plumb::cuda
