#include "planted_depthwise_toeplitz.hpp"

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_launch.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// The tile that is copied, of columns of stride 1.
constexpr DepthwiseToeplitzTile copied_tile{2, 4};

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result;
  if (problem.dtype != DType::f16 || problem.groups != problem.c || problem.k != problem.c ||
      problem.groups < 2) {
    result.support = {Reason::geometry, "another convolution; expected depthwise, of f16"};
    return result;
  }
  const auto cut = plan_depthwise_toeplitz(problem, device, {.tile = &copied_tile});
  if (!cut || cut->w.stride != 1) {
    result.support = {Reason::geometry, "no cut of stride 1; expected one"};
    return result;
  }
  result.estimate_seconds = 1;
  result.kernel = planned(*cut);
  return result;
}

template <DepthwiseToeplitzFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  depthwise_toeplitz::launch_tile<__half, true, copied_tile.m, copied_tile.n, fault>(
      planned_value<DepthwiseToeplitzPlan>(plan), call);
}

template <DepthwiseToeplitzFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  return {mistake,
          {.name = "cuda.conv.depthwise.fp16.toeplitz",
           .numerics = {.operand = Operand::fp16,
                        .accumulator = Accumulator::tensor_core_fp32,
                        .chain = depthwise_toeplitz_chain},
           .accumulates = true,
           .plan = plan,
           .launch = launch<fault>}};
}

}  // namespace

std::vector<PlantedCopy> depthwise_toeplitz_copies() {
  using enum DepthwiseToeplitzFault;
  return {copy_with<none>(""), copy_with<wrong_tap>("wrong_tap"),
          copy_with<wrong_parity>("wrong_parity"), copy_with<exchanged_halves>("exchanged_halves"),
          copy_with<padding_of_ones>("padding_of_ones")};
}

}  // namespace plumb_test
