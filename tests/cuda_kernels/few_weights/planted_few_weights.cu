#include "planted_few_weights.hpp"

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/few_weights/few_weights_launch.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// The tile that is copied, of blocks whose warps share terms.
constexpr FewWeightsTile copied_tile{1, 2};

template <class Arithmetic>
PlanResult plan(const ConvProblem& problem, const DeviceInfo&) {
  constexpr FewWeightsClass of = Arithmetic::host;
  PlanResult result;
  if (problem.direction != Direction::backward_weights || problem.dtype != of.stored) {
    result.support = {Reason::dtype, "another type; expected that of the copy"};
    return result;
  }
  const auto few = plan_few_weights(problem, of, {.tile = &copied_tile, .max_box = 8});
  if (!few) {
    result.support = {Reason::geometry, "no cut; expected one"};
    return result;
  }
  result.estimate_seconds = 1;
  result.workspace_bytes = few->sums() * sizeof(float);
  result.kernel = planned(*few);
  return result;
}

template <class Arithmetic, FewWeightsFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const WeightsCall with{.x = call.x,
                         .dy = call.w,
                         .dw = call.y,
                         .parts = call.workspace,
                         .accumulate = call.accumulate};
  few_weights::launch_tile<Arithmetic, copied_tile.m, copied_tile.n, fault>(
      planned_value<FewWeightsPlan>(plan), with, call.native_queue);
}

template <class Arithmetic, FewWeightsFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  constexpr FewWeightsClass of = Arithmetic::host;
  return {mistake,
          {.name = of.splits() ? "cuda.conv.few_weights.fp16x3" : "cuda.conv.few_weights.fp16",
           .numerics = {.operand = Operand::fp16,
                        .accumulator = Accumulator::tensor_core_fp32,
                        .products = of.products,
                        .term_multiple = few_weights_step},
           .takes_depth = true,
           .accumulates = true,
           .takes_backward_weights = true,
           .plan = plan<Arithmetic>,
           .launch = launch<Arithmetic, fault>}};
}

}  // namespace

std::vector<PlantedCopy> few_weights_copies() {
  using enum FewWeightsFault;
  using few_weights::Fp16, few_weights::Fp16x3;
  return {copy_with<Fp16, none>(""),
          copy_with<Fp16, lost_warp>("lost_warp"),
          copy_with<Fp16, wrong_tap>("wrong_tap"),
          copy_with<Fp16x3, none>(""),
          copy_with<Fp16x3, lost_warp>("lost_warp"),
          copy_with<Fp16x3, no_low>("low_twice")};
}

}  // namespace plumb_test
