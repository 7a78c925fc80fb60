#include "planted_octet_weights.hpp"

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/octet_weights/octet_weights_launch.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// The form that is copied.
constexpr OctetForm copied_form{2, 9, 2};

PlanResult plan(const ConvProblem& problem, const DeviceInfo&) {
  PlanResult result;
  if (problem.direction != Direction::backward_weights || problem.dtype != DType::f32) {
    result.support = {Reason::dtype, "another type; expected that of the copy"};
    return result;
  }
  const auto octets = plan_octet_weights(problem, {.form = &copied_form, .max_box = 8});
  if (!octets) {
    result.support = {Reason::geometry, "no cut; expected one"};
    return result;
  }
  result.estimate_seconds = 1;
  result.workspace_bytes = octets->sums() * sizeof(float);
  result.kernel = planned(*octets);
  return result;
}

template <FewWeightsFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const WeightsCall with{.x = call.x,
                         .dy = call.w,
                         .dw = call.y,
                         .parts = call.workspace,
                         .accumulate = call.accumulate};
  octet_weights::launch_form<copied_form.filters, copied_form.tiles, copied_form.blocks_at_once,
                             fault>(planned_value<OctetWeightsPlan>(plan), with, call.native_queue);
}

template <FewWeightsFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  return {mistake,
          {.name = "cuda.conv.octet_weights.fp16x3",
           .numerics = {.operand = Operand::fp16,
                        .accumulator = Accumulator::tensor_core_fp32,
                        .products = 3,
                        .term_multiple = few_weights_step},
           .takes_depth = true,
           .accumulates = true,
           .takes_backward_weights = true,
           .plan = plan,
           .launch = launch<fault>}};
}

}  // namespace

std::vector<PlantedCopy> octet_weights_copies() {
  using enum FewWeightsFault;
  return {copy_with<none>(""), copy_with<lost_warp>("lost_warp"), copy_with<wrong_tap>("wrong_tap"),
          copy_with<no_low>("low_twice")};
}

}  // namespace plumb_test
