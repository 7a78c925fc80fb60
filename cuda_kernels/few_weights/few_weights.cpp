// The entries of the family: which gradients it computes, and what a launch tells its kernels.
#include <fmt/format.h>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/few_weights.hpp"
#include "cuda_kernels/few_weights/few_weights.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

Support supports(const ConvProblem& problem, const FewWeightsClass& of) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            fmt::format("{}; expected backward weights", to_string(problem.direction))};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  return supports_dtypes({of.stored}, forward);
}

template <const FewWeightsClass& of>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports(problem, of)};
  if (!result.support) return result;
  const auto few = plan_few_weights(problem, of);
  if (!few) {
    result.support = {
        Reason::geometry,
        fmt::format("filters of {}x{}x{}, strides of {}x{}x{}, dilations of {}x{}x{}; expected "
                    "the input of 16 outputs to fit shared memory",
                    problem.t, problem.r, problem.s, problem.stride.d, problem.stride.h,
                    problem.stride.w, problem.dilation.d, problem.dilation.h, problem.dilation.w)};
    return result;
  }
  result.support = fits_shared_memory(static_cast<double>(few->cut.shared_bytes), device);
  if (!result.support) return result;
  result.workspace_bytes = few->sums() * sizeof(float);
  result.estimate_seconds = few_weights_seconds(problem, device, few->cut.clocks);
  result.kernel = planned(*few);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const auto& few = planned_value<FewWeightsPlan>(plan);
  const WeightsCall with{.x = call.x,
                         .dy = call.w,
                         .dw = call.y,
                         .parts = call.workspace,
                         .accumulate = call.accumulate};
  if (few.of.stored == DType::f32)
    launch_few_weights_f32(few, with, call.native_queue);
  else
    launch_few_weights_half(few, with, call.native_queue);
}

/// Where the algorithm refuses, the chain is that of all terms. A bound is asked for each element
/// of dw, so that the last is kept.
template <const FewWeightsClass& of>
double chain(const ConvProblem& problem) {
  thread_local struct {
    ConvProblem problem;
    double chain = -1;
  } last;
  if (last.chain >= 0 && problem == last.problem) return last.chain;
  last = {problem, static_cast<double>(problem.terms())};
  if (supports(problem, of))
    if (const auto few = plan_few_weights(problem, of))
      last.chain = few_weights_chain(few->sizes, few->cut, of);
  return last.chain;
}

template <const FewWeightsClass& of>
constexpr ConvAlgorithm entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = of.products,
                   .term_multiple = few_weights_step,
                   .chain = chain<of>},
      .takes_depth = true,
      .accumulates = true,
      .takes_backward_weights = true,
      .plan = plan<of>,
      .launch = launch,
  };
}

}  // namespace

extern const ConvAlgorithm few_weights_fp16 =
    entry<few_weights_fp16_class>("cuda.conv.few_weights.fp16", Operand::fp16);
extern const ConvAlgorithm few_weights_bf16 =
    entry<few_weights_bf16_class>("cuda.conv.few_weights.bf16", Operand::bf16);
extern const ConvAlgorithm few_weights_fp16_scaled =
    entry<few_weights_fp16_scaled_class>("cuda.conv.few_weights.fp16_scaled", Operand::fp16_scaled);
extern const ConvAlgorithm few_weights_fp16x3 =
    entry<few_weights_fp16x3_class>("cuda.conv.few_weights.fp16x3", Operand::fp16);

}  // namespace plumb::cuda
