// Implicit GEMM of many channels on Hopper's tensor cores, for tensors of f16 and bf16 whose
// channels lie side by side (N W C, N H W C, N D H W C): the copy engine makes the rows of im2col
// in shared memory, and wgmma takes both operands from there.
//
// Tiling: 128×256 or 256×128 outputs a block, fewer where there are few; two warpgroups multiply,
//   one thread loads 64 channels under a tap at a time, ahead by up to eight stages. Where tiles do
//   not fill the device, several blocks sum parts of an output's terms, added in a fixed order.
// Bytes: y once. x R S times and w once for each tile, from L2 where they fit there.
// Wins: it is not chosen yet.
// Measured: not yet.
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/wide/wide_kernel.cuh"

namespace plumb::cuda {
namespace {

template <class Stored>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_wide(problem, dtype_of_stored<Stored>, device)};
  if (!result.support) return result;
  WidePlan plan{.filters = WideFilters(problem), .map = wide_im2col(problem), .tiles = {}};
  if (problem.n > 0) plan.tiles = tile_wide(problem, device);
  result.estimate_seconds = plan.tiles.seconds;
  result.workspace_bytes = plan.tiles.sums_bytes(plan.filters);
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

void pack(const FilterPacking& packing, const KernelPlan* plan) {
  pack_wide_filters(packing.problem, planned_value<WidePlan>(plan).filters, packing.w,
                    packing.filters, packing.native_queue);
}

template <class Stored>
void launch(const ConvLaunch& call, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<WidePlan>(kernel_plan);
  const WideParams<Stored> params = wide_params<Stored>(
      call.problem, plan,
      {.x = call.x, .filters = call.filters, .y = call.y, .sums = call.workspace},
      Epilogue<Stored>(call));
  with_shape(plan.tiles.shape, [&]<int shape>() {
    launch_wide<Stored, shape>(params, call.device, call.native_queue);
  });
}

template <class Stored>
constexpr ConvAlgorithm entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = 16},
      .takes_depth = true,
      .accumulates = true,
      .plan = plan<Stored>,
      .pack_filters = pack,
      .launch = launch<Stored>,
  };
}

}  // namespace

extern const ConvAlgorithm wide_fp16 = entry<__half>("cuda.conv.wide.fp16", Operand::fp16);
extern const ConvAlgorithm wide_bf16 = entry<__nv_bfloat16>("cuda.conv.wide.bf16", Operand::bf16);

}  // namespace plumb::cuda
