// The entries of the family: which gradients it computes, and what a launch tells its kernels.
#include <fmt/format.h>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/weights.hpp"
#include "cuda_kernels/weights/weights.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr double max_blocks = 0x7fff0000;
/// Depthwise layers of 7x7 and 31x31 took 1.5 to 6.4 times their estimate on one H100, in f32 NCHW.
constexpr double depthwise_factor = 1.5;

template <class Real>
Support supports(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            fmt::format("{}; expected backward weights", to_string(problem.direction))};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  if constexpr (sizeof(Real) == 8)
    return supports_dtypes({DType::f64}, forward);
  else
    return supports_dtypes({DType::f32, DType::f16, DType::bf16}, forward);
}

/// The cut of a problem that is supported; nothing where none fits.
template <class Real>
std::optional<WeightsPlan> plan_of(const ConvProblem& problem) {
  const auto sizes = weights_sizes(problem);
  if (!sizes) return std::nullopt;
  const auto cut = cut_weights(*sizes, sizeof(Real));
  if (!cut ||
      static_cast<double>(cut->blocks_of_part(sizes->groups)) * static_cast<double>(cut->parts) >
          max_blocks ||
      static_cast<double>(sizes->weights()) > max_blocks)
    return std::nullopt;
  return WeightsPlan{*sizes, *cut, weights_strides(problem)};
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports<Real>(problem)};
  if (!result.support) return result;
  const auto planned_weights = plan_of<Real>(problem);
  if (!planned_weights) {
    result.support = {
        Reason::geometry,
        fmt::format("filters of {}x{}x{}, strides of {}x{}x{}, dilations of "
                    "{}x{}x{}; expected the input of four outputs to fit shared "
                    "memory",
                    problem.t, problem.r, problem.s, problem.stride.d, problem.stride.h,
                    problem.stride.w, problem.dilation.d, problem.dilation.h, problem.dilation.w)};
    return result;
  }
  const WeightsCut& cut = planned_weights->cut;
  result.support = fits_shared_memory(static_cast<double>(cut.shared_bytes), device);
  if (!result.support) return result;
  result.workspace_bytes = static_cast<std::size_t>(cut.parts) *
                           static_cast<std::size_t>(planned_weights->sizes.weights()) *
                           sizeof(Real);
  result.estimate_seconds = weights_seconds(problem, device, cut.clocks, sizeof(Real),
                                            single_elements(planned_weights->sizes, cut));
  if (problem.k == problem.groups && problem.c == problem.groups && problem.groups > 1)
    result.estimate_seconds *= depthwise_factor;
  result.kernel = planned(*planned_weights);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const auto& weights = planned_value<WeightsPlan>(plan);
  const WeightsCall with{.x = call.x,
                         .dy = call.w,
                         .dw = call.y,
                         .parts = call.workspace,
                         .accumulate = call.accumulate};
  switch (call.problem.dtype) {
    case DType::f32: return launch_weights_f32(weights, with, call.native_queue);
    case DType::f64: return launch_weights_f64(weights, with, call.native_queue);
    case DType::f16: return launch_weights_f16(weights, with, call.native_queue);
    case DType::bf16: return launch_weights_bf16(weights, with, call.native_queue);
  }
}

/// Where the algorithm refuses, the chain is that of all terms.
template <class Real>
double chain(const ConvProblem& problem) {
  if (supports<Real>(problem))
    if (const auto weights = plan_of<Real>(problem))
      return weights_chain(weights->sizes, weights->cut);
  return static_cast<double>(problem.terms());
}

}  // namespace

extern const ConvAlgorithm weights_fp32{
    .name = "cuda.conv.weights.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .chain = chain<float>},
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan<float>,
    .launch = launch,
};

extern const ConvAlgorithm weights_fp64{
    .name = "cuda.conv.weights.fp64",
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
