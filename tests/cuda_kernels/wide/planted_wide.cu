#include "planted_wide.hpp"

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide/wide_kernel.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// Tiles of 128×128, for problems small enough to be validated.
constexpr int copied_shape = 5;
static_assert(wide_shapes[copied_shape] == WideShape{128, 128, 1, 1});

template <int splits>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide(problem, DType::f16, device)};
  if (!result.support) return result;
  WidePlan plan{.filters = WideFilters(problem), .map = wide_im2col(problem), .tiles = {}};
  plan.tiles = tile_wide(problem, device, {.shape = copied_shape, .splits = splits});
  result.estimate_seconds = plan.tiles.seconds;
  result.workspace_bytes = plan.tiles.sums_bytes(plan.filters);
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <WideFault fault>
void pack(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters<fault>(packing.problem, planned_value<WidePlan>(plan).filters, packing.w,
                           packing.filters, packing.native_queue);
}

template <WideFault fault>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  launch_wide<__half, copied_shape, fault>(
      wide_params<__half>(
          call.problem, planned_value<WidePlan>(plan),
          {.x = call.x, .filters = call.filters, .y = call.y, .sums = call.workspace},
          Epilogue<__half>(call)),
      call.device, call.native_queue);
}

template <WideFault fault, int splits>
PlantedCopy copy_with(std::string_view mistake) {
  return {mistake,
          {.name = "cuda.conv.wide.fp16",
           .numerics = {.operand = Operand::fp16,
                        .accumulator = Accumulator::tensor_core_fp32,
                        .term_multiple = 16},
           .takes_depth = true,
           .accumulates = true,
           .plan = plan<splits>,
           .pack_filters = pack<fault>,
           .launch = launch<fault>}};
}

}  // namespace

std::vector<PlantedCopy> wide_copies() {
  return {copy_with<WideFault::none, 1>(""), copy_with<WideFault::none, 2>(""),
          copy_with<WideFault::wrong_swizzle, 1>("wrong_swizzle"),
          copy_with<WideFault::stale_stage, 1>("stale_stage"),
          copy_with<WideFault::lost_split, 2>("lost_split")};
}

}  // namespace plumb_test
