#include "planted_wide_weights.hpp"

#include "cuda_kernels/wide_weights/wide_weights_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// Tiles of 128×128, for problems small enough to be validated.
constexpr int copied_shape = 3;
static_assert(wide_shapes[copied_shape] == WideShape{128, 128, 1});

template <class Arithmetic, int splits>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide_weights(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const WideWeightsPlan plan(problem, Arithmetic::host, {.shape = copied_shape, .splits = splits});
  result.estimate_seconds = plan.seconds(device);
  result.workspace_bytes = plan.workspace_bytes;
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic, WideWeightsFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  launch_wide_weights<Arithmetic, copied_shape, fault>(planned_value<WideWeightsPlan>(plan),
                                                       wide_weights_call(call), call.device,
                                                       call.native_queue);
}

template <class Arithmetic, WideWeightsFault fault, int splits>
PlantedCopy copy_with(std::string_view mistake) {
  constexpr std::string_view name = Arithmetic::splits_in_registers
                                        ? "cuda.conv.wide_weights.tf32x3"
                                    : Arithmetic::splits_in_memory ? "cuda.conv.wide_weights.fp16x3"
                                                                   : "cuda.conv.wide_weights.fp16";
  constexpr Operand operand =
      Arithmetic::splits_in_registers ? Operand::tf32_rounded : Operand::fp16;
  ConvAlgorithm algorithm = wide_weights_entry<Arithmetic>(name, operand);
  algorithm.plan = plan<Arithmetic, splits>;
  algorithm.launch = launch<Arithmetic, fault>;
  // Of cuts that the copies force, the chain is that of all terms.
  algorithm.numerics.chain = nullptr;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> wide_weights_copies() {
  using enum WideWeightsFault;
  return {copy_with<WideFp16, none, 1>(""),
          copy_with<WideFp16, none, 2>(""),
          copy_with<WideFp16, lost_split, 2>("lost_split"),
          copy_with<WideFp16, wrong_tap, 1>("wrong_tap"),
          copy_with<WideFp16, stale_stage, 1>("stale_stage"),
          copy_with<WideFp16, wrong_stride, 1>("wrong_stride"),
          copy_with<WideFp16x3, none, 1>(""),
          copy_with<WideFp16x3, none, 2>(""),
          copy_with<WideFp16x3, low_twice, 1>("low_twice"),
          copy_with<WideTf32x3, none, 1>(""),
          copy_with<WideTf32x3, none, 2>(""),
          copy_with<WideTf32x3, stale_fragment, 1>("stale_fragment"),
          copy_with<WideTf32x3, swapped_pixels, 1>("swapped_pixels"),
          copy_with<WideTf32x3, lost_low, 1>("lost_low")};
}

}  // namespace plumb_test
