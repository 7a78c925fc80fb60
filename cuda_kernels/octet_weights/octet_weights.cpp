// The entry of the family: which gradients it computes, and what a launch tells its kernels.
#include "cuda_kernels/octet_weights/octet_weights.hpp"

#include <fmt/format.h>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/few_weights.hpp"
#include "cuda_kernels/cost/octet_weights.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

Support supports(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            fmt::format("{}; expected backward weights", to_string(problem.direction))};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  return supports_dtypes({DType::f32}, forward);
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports(problem)};
  if (result.support) result.support = supports_wgmma(device);
  if (!result.support) return result;
  const auto octets = plan_octet_weights(problem);
  if (!octets) {
    result.support = {
        Reason::geometry,
        fmt::format(
            "filters of {}x{}x{}, strides of {}x{}x{}, dilations of {}x{}x{}; expected at "
            "most {} taps of a channel, and the input of eight outputs to fit shared memory",
            problem.t, problem.r, problem.s, problem.stride.d, problem.stride.h, problem.stride.w,
            problem.dilation.d, problem.dilation.h, problem.dilation.w,
            octet_max_tap_tiles * octet_tile)};
    return result;
  }
  const FewWeightsCut& cut = octets->cut.few;
  result.support = fits_shared_memory(static_cast<double>(cut.shared_bytes), device);
  if (!result.support) return result;
  result.workspace_bytes = octets->sums() * sizeof(float);
  result.estimate_seconds = octet_weights_seconds(problem, device, cut.clocks);
  result.kernel = planned(*octets);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* plan) {
  launch_octet_weights(planned_value<OctetWeightsPlan>(plan),
                       {.x = call.x,
                        .dy = call.w,
                        .dw = call.y,
                        .parts = call.workspace,
                        .accumulate = call.accumulate},
                       call.native_queue);
}

/// Where the algorithm refuses, the chain is that of all terms. A bound is asked for each element
/// of dw, so that the last is kept.
double chain(const ConvProblem& problem) {
  thread_local struct {
    ConvProblem problem;
    double chain = -1;
  } last;
  if (last.chain >= 0 && problem == last.problem) return last.chain;
  last = {problem, static_cast<double>(problem.terms())};
  if (supports(problem))
    if (const auto octets = plan_octet_weights(problem)) last.chain = octet_weights_chain(*octets);
  return last.chain;
}

}  // namespace

extern const ConvAlgorithm octet_weights_fp16x3 = {
    .name = "cuda.conv.octet_weights.fp16x3",
    .numerics = {.operand = Operand::fp16,
                 .accumulator = Accumulator::tensor_core_fp32,
                 .products = 3,
                 .term_multiple = few_weights_step,
                 .chain = chain},
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan,
    .launch = launch,
};

}  // namespace plumb::cuda
