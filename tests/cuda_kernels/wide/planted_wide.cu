#include "planted_wide.hpp"

#include "cuda_kernels/wide/wide_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// Tiles of 128×128, for problems small enough to be validated.
constexpr int copied_shape = 3;
static_assert(wide_shapes[copied_shape] == WideShape{128, 128, 1});

template <class Arithmetic, int splits, int cluster>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const WidePlan plan(problem, Arithmetic::host, device,
                      {.shape = copied_shape,
                       .splits = splits,
                       .across = Arithmetic::splits_in_registers,
                       .cluster = cluster});
  result.estimate_seconds = plan.tiles.seconds;
  result.workspace_bytes = plan.workspace.bytes;
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic, WideFault fault>
void pack(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters<Arithmetic, fault>(packing.problem, planned_value<WidePlan>(plan).filters,
                                       packing.w, packing.filters, packing.native_queue);
}

template <class Arithmetic, WideFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  if constexpr (Arithmetic::splits_in_registers) {
    using Across = WideArithmetic<float, float, 3, true>;
    if (launch_wide_across<Across>(call.problem, planned_value<WidePlan>(plan), wide_call(call),
                                   Epilogue<float>(call),
                                   [&](const WideParams<Across>& params, bool early) {
                                     launch_tiles<Across, copied_shape, fault>(
                                         params, early, call.device, call.native_queue);
                                   }))
      return;
  }
  launch_wide<Arithmetic>(call.problem, planned_value<WidePlan>(plan), wide_call(call),
                          Epilogue<typename Arithmetic::Stored>(call), call.native_queue,
                          [&](const WideParams<Arithmetic>& params, bool early) {
                            launch_tiles<Arithmetic, copied_shape, fault>(
                                params, early, call.device, call.native_queue);
                          });
}

template <class Arithmetic, WideFault fault, int splits, int cluster = 1>
PlantedCopy copy_with(std::string_view mistake) {
  ConvAlgorithm algorithm =
      Arithmetic::splits_in_registers
          ? wide_entry<Arithmetic>("cuda.conv.wide.tf32x3", Operand::tf32_rounded)
      : Arithmetic::splits_in_memory
          ? wide_entry<Arithmetic>("cuda.conv.wide.fp16x3", Operand::fp16)
          : wide_entry<Arithmetic>("cuda.conv.wide.fp16", Operand::fp16);
  algorithm.plan = plan<Arithmetic, splits, cluster>;
  algorithm.pack_filters = pack<Arithmetic, fault>;
  algorithm.launch = launch<Arithmetic, fault>;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> wide_copies() {
  return {copy_with<WideFp16, WideFault::none, 1>(""),
          copy_with<WideFp16, WideFault::none, 2>(""),
          copy_with<WideFp16, WideFault::wrong_swizzle, 1>("wrong_swizzle"),
          copy_with<WideFp16, WideFault::stale_stage, 1>("stale_stage"),
          copy_with<WideFp16, WideFault::lost_split, 2>("lost_split"),
          copy_with<WideFp16, WideFault::none, 1, 2>(""),
          copy_with<WideFp16, WideFault::lost_split, 1, 2>("lost_split"),
          copy_with<WideFp16, WideFault::wrong_group, 1>("wrong_group"),
          copy_with<WideFp16, WideFault::wrong_term, 1>("wrong_term"),
          copy_with<WideFp16x3, WideFault::none, 1>(""),
          copy_with<WideFp16x3, WideFault::none, 2>(""),
          copy_with<WideFp16x3, WideFault::low_twice, 1>("low_twice"),
          copy_with<WideTf32x3, WideFault::none, 1>(""),
          copy_with<WideTf32x3, WideFault::none, 2>(""),
          copy_with<WideTf32x3, WideFault::stale_fragment, 1>("stale_fragment"),
          copy_with<WideTf32x3, WideFault::lost_low, 1>("lost_low"),
          copy_with<WideTf32x3, WideFault::swapped_terms, 1>("swapped_terms"),
          copy_with<WideTf32x3, WideFault::lost_box, 1>("lost_box")};
}

}  // namespace plumb_test
