#include "planted_depthwise_weights.hpp"

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/depthwise_weights/depthwise_weights.hpp"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

enum class Fault { none, lost_unit, lost_part, tap_off_by_one, padding_read, rows_twice };

void damage(DepthwiseWeightsPlan& plan, Fault fault) {
  switch (fault) {
    case Fault::none: return;
    case Fault::lost_unit: --plan.cut.units; return;
    case Fault::lost_part: --plan.weights.cut.parts; return;
    case Fault::tap_off_by_one: --plan.w.before; return;
    case Fault::padding_read: ++plan.w.extent; return;
    case Fault::rows_twice: plan.h.phases *= 2, plan.cut.units *= 2; return;
  }
}

template <Fault fault>
PlanResult plan(const ConvProblem& problem, const DeviceInfo&) {
  auto of_problem = plan_depthwise_weights(problem);
  if (!of_problem) return {.support = {Reason::geometry, "a problem without a plan"}};
  PlanResult result;
  result.workspace_bytes = static_cast<std::size_t>(of_problem->cut.parts) *
                           static_cast<std::size_t>(of_problem->weights.sizes.weights()) *
                           sizeof(float);
  damage(*of_problem, fault);
  result.kernel = planned(*of_problem);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* plan) {
  launch_depthwise_weights_f32(planned_value<DepthwiseWeightsPlan>(plan),
                               {.x = call.x,
                                .dy = call.w,
                                .dw = call.y,
                                .parts = call.workspace,
                                .accumulate = call.accumulate},
                               call.native_queue);
}

template <Fault fault>
PlantedCopy copy_with(std::string_view mistake) {
  return {mistake,
          {.name = "cuda.conv.depthwise_weights.fp32",
           .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
           .takes_depth = true,
           .accumulates = true,
           .takes_backward_weights = true,
           .plan = plan<fault>,
           .launch = launch}};
}

}  // namespace

std::vector<PlantedCopy> depthwise_weights_copies() {
  return {copy_with<Fault::none>(""),
          copy_with<Fault::lost_unit>("lost_unit"),
          copy_with<Fault::lost_part>("lost_part"),
          copy_with<Fault::tap_off_by_one>("tap_off_by_one"),
          copy_with<Fault::padding_read>("padding_read"),
          copy_with<Fault::rows_twice>("rows_twice")};
}

}  // namespace plumb_test
