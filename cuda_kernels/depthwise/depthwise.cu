// The entries of the family: which convolutions are depthwise, by which kernel, in which
// arithmetic. Sums of march and planes are chains over t, r, s rising; channels takes taps along a
// row in fours, all rows of each.
#include <string>

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

template <bool doubles>
Support supports(const ConvProblem& p) {
  if (const Support stored = doubles ? supports_dtypes({DType::f64}, p)
                                     : supports_dtypes({DType::f32, DType::f16, DType::bf16}, p);
      !stored)
    return stored;
  if (p.groups != p.c || p.groups < 2)
    return {Reason::geometry, std::to_string(p.groups) + " groups of " + std::to_string(p.c) +
                                  " channels; expected several groups of a channel each"};
  if (!deep_fits_32_bits(p))
    return {Reason::too_large,
            "tensors that 32 bits cannot index; expected fewer than 2^31 "
            "elements"};
  return {};
}

template <DepthwiseKernel kernel, bool doubles>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports<doubles>(problem)};
  if (!result.support || problem.n == 0) return result;
  const auto planned_cut = plan_depthwise(problem, kernel, device);
  if (!planned_cut) {
    const std::string filters = "filters of " + std::to_string(problem.t) + "x" +
                                std::to_string(problem.r) + "x" + std::to_string(problem.s);
    if constexpr (kernel == DepthwiseKernel::march)
      result.support = {Reason::geometry,
                        filters + " of stride " + std::to_string(problem.stride.w) +
                            " and dilation " + std::to_string(problem.dilation.w) +
                            "; expected 3x3 or 5x5 of stride 1 or 2, 7x7, 3x3x3, or 3 or 4 taps "
                            "of stride 1, and stride 1 where they are dilated"};
    else
      result.support = {Reason::device_limit,
                        filters + "; expected them and the input of a tile to fit shared memory"};
    return result;
  }
  result.estimate_seconds = planned_cut->seconds;
  result.kernel = planned(*planned_cut);
  return result;
}

void launch(const ConvLaunch& call, const KernelPlan* kernel) {
  const auto& plan = planned_value<DepthwisePlan>(kernel);
  switch (call.problem.dtype) {
    case DType::f16: return launch_depthwise_f16(plan, call);
    case DType::bf16: return launch_depthwise_bf16(plan, call);
    case DType::f64: return launch_depthwise_f64(plan, call);
    default: return launch_depthwise_f32(plan, call);
  }
}

/// The entry of a kernel; sums of channels are no chains.
template <DepthwiseKernel kernel, bool doubles>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = doubles ? Operand::fp64 : Operand::fp32,
                   .accumulator = doubles ? Accumulator::fp64_fma : Accumulator::fp32_fma,
                   .reproducible = kernel != DepthwiseKernel::channels,
                   .invariant = true},
      .takes_depth = true,
      .takes_boundaries = true,
      .accumulates = true,
      .plan = plan<kernel, doubles>,
      .launch = launch,
  };
}

}  // namespace

extern const ConvAlgorithm depthwise_fp32_march =
    entry<DepthwiseKernel::march, false>("cuda.conv.depthwise.fp32.march");
extern const ConvAlgorithm depthwise_fp32_planes =
    entry<DepthwiseKernel::planes, false>("cuda.conv.depthwise.fp32.planes");
extern const ConvAlgorithm depthwise_fp32_channels =
    entry<DepthwiseKernel::channels, false>("cuda.conv.depthwise.fp32.channels");
extern const ConvAlgorithm depthwise_fp64_march =
    entry<DepthwiseKernel::march, true>("cuda.conv.depthwise.fp64.march");
extern const ConvAlgorithm depthwise_fp64_planes =
    entry<DepthwiseKernel::planes, true>("cuda.conv.depthwise.fp64.planes");
extern const ConvAlgorithm depthwise_fp64_channels =
    entry<DepthwiseKernel::channels, true>("cuda.conv.depthwise.fp64.channels");

}  // namespace plumb::cuda
