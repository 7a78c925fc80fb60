// Large filters of few channels on Hopper's tensor cores: a filter is a Toeplitz matrix for 64
// outputs at a time, and the input is wgmma's other operand as it lies in its rows.
//
// Products are formed in fp16 of operands scaled by powers of two: three of them of halves, as
// accurate as fp32 (Ootomo & Yokota 2022), or one of rounded operands, as accurate as TF32. Tiles
// whose values lie too far apart for that are summed with fp32 FMAs.
//
// Tiling: a warpgroup has 128×64 outputs, or 16 segments of 512 in rows of their own.
// Bytes: y once. x once, and the halos of tiles again from L2; once for each of several filters.
// Wins: from some 60 taps on; of the products (8 ⌈(S + 7) / 8⌉ (R + 7)) / (R S 64) are the filter's.
// Measured: docs/kernels/toeplitz.md.
#include <string>

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/toeplitz/toeplitz_kernel.cuh"
#include "cuda_kernels/toeplitz/toeplitz_pack.cuh"

namespace plumb::cuda {
namespace {

template <int products>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_toeplitz(problem, device)};
  if (!result.support) return result;
  const auto plan = plan_toeplitz(field_problem(problem), device, products);
  if (!plan) {
    result.support = {Reason::geometry, "a filter of " + std::to_string(problem.r) + "x" +
                                            std::to_string(problem.s) +
                                            "; expected the input of a tile to fit shared memory"};
    return result;
  }
  result.estimate_seconds = kernel_seconds(plan->tiles.seconds, device, 0);
  result.filter_bytes = plan->packed_bytes();
  result.kernel = planned(*plan);
  return result;
}

template <int products>
void pack(const FilterPacking& packing, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<ToeplitzPlan>(kernel_plan);
  auto* const packed = static_cast<char*>(packing.filters);
  const ToeplitzPacking to{.view = plan.view,
                           .filters = plan.filters,
                           .filter_bytes = plan.filter_bytes(),
                           .pass_bytes = plan.pass_bytes(),
                           .w = static_cast<const float*>(packing.w),
                           .packed = packed,
                           .dense = reinterpret_cast<float*>(packed + plan.dense_at())};
  Launch(packing.native_queue, static_cast<unsigned>(plan.view.k), toeplitz_packing_threads)(
      describe_toeplitz, to);
  const std::int64_t rows = std::int64_t{plan.filters.cores()} * 8 * plan.filters.passes();
  Launch(packing.native_queue, blocks_for(rows * plan.view.k, toeplitz_packing_threads),
         toeplitz_packing_threads)(pack_toeplitz<products>, to);
}

ToeplitzParams params_of(const ToeplitzPlan& plan, const ConvLaunch& call) {
  ToeplitzParams params{};
  FieldView& view = params.view;
  view = plan.view;
  // Filters are read as they are packed.
  view.w.w_step = 1, view.v.w_step = view.w.taps;
  view.u.w_step = view.v.w_step * view.v.taps;
  view.w_c = view.u.w_step * view.u.taps, view.w_k = view.w_c * view.c;
  params.filters = plan.filters;
  params.x = static_cast<const float*>(call.x);
  params.x_aligned = reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(call.x) / 16 * 16);
  params.packed = static_cast<const char*>(call.filters);
  params.w = reinterpret_cast<const float*>(params.packed + plan.dense_at());
  params.filter_bytes = plan.filter_bytes();
  params.pass_bytes = static_cast<int>(plan.pass_bytes());
  params.stages = plan.tiles.stages, params.filter_stages = plan.tiles.filter_stages;
  params.lines = plan.tiles.lines, params.line = plan.tiles.line;
  params.tile_bytes = plan.tiles.tile_bytes();
  params.line_bytes = plan.tiles.line_bytes();
  params.vectors = Divisor<int>(params.line_bytes / 16);
  const bool rows = plan.filters.mode == ToeplitzMode::rows;
  params.tiles_w = Divisor<int>(
      ceil_div(view.w.outputs, rows ? toeplitz_columns : toeplitz_line_columns));
  params.tiles_v = Divisor<int>(rows ? ceil_div(view.v.outputs, toeplitz_rows) : view.v.outputs);
  params.outputs_u = Divisor<int>(view.u.outputs);
  params.units = static_cast<int>(view.n * view.u.outputs * view.v.outputs *
                                  params.tiles_w.value());
  params.tiles = static_cast<int>(plan.tile_count());
  return params;
}

template <int products>
void launch(const ConvLaunch& call, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<ToeplitzPlan>(kernel_plan);
  const ToeplitzParams params = params_of(plan, call);
  const auto run = [&](auto kernel) {
    Launch(call.native_queue, blocks_for(params.tiles, 1), toeplitz_threads,
           static_cast<std::size_t>(plan.shared_bytes()))
        .resident(kernel, call.device)(kernel, params, static_cast<float*>(call.y),
                                       Epilogue<float>(call));
  };
  if (plan.filters.mode == ToeplitzMode::rows)
    run(toeplitz<ToeplitzMode::rows, products>);
  else
    run(toeplitz<ToeplitzMode::line, products>);
}

template <int products>
constexpr ConvAlgorithm entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = products,
                   .term_multiple = 16},
      .takes_depth = true,
      .takes_boundaries = true,
      .accumulates = true,
      .plan = plan<products>,
      .pack_filters = pack<products>,
      .launch = launch<products>,
  };
}

}  // namespace

extern const ConvAlgorithm toeplitz_fp16x3 = entry<3>("cuda.conv.toeplitz.fp16x3", Operand::fp16);
extern const ConvAlgorithm toeplitz_fp16_scaled =
    entry<1>("cuda.conv.toeplitz.fp16_scaled", Operand::fp16_scaled);

}  // namespace plumb::cuda
