// What an entry of the family is made of: plan, packing of filters and launch.
#pragma once

#include <string>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/toeplitz/toeplitz_kernel.cuh"
#include "cuda_kernels/toeplitz/toeplitz_pack.cuh"

namespace plumb::cuda {

/// ConvAlgorithm::plan.
template <int products>
PlanResult plan_toeplitz_algorithm(const ConvProblem& problem, const DeviceInfo& device) {
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

/// ConvAlgorithm::pack_filters.
template <int products>
void pack_toeplitz_filters(const FilterPacking& packing, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<ToeplitzPlan>(kernel_plan);
  auto* const packed = static_cast<char*>(packing.filters);
  const ToeplitzPacking to{.view = plan.view,
                           .filters = plan.filters,
                           .filter_bytes = plan.filter_bytes(),
                           .part_bytes = plan.filters.part_bytes(products),
                           .w = static_cast<const float*>(packing.w),
                           .packed = packed,
                           .dense = reinterpret_cast<float*>(packed + plan.dense_at())};
  Launch(packing.native_queue, static_cast<unsigned>(plan.view.k), toeplitz_packing_threads)(
      describe_toeplitz, to);
  const std::int64_t rows = std::int64_t{plan.filters.cores()} * 8 * plan.filters.parts();
  Launch(packing.native_queue, blocks_for(rows * plan.view.k, toeplitz_packing_threads),
         toeplitz_packing_threads)(pack_toeplitz<products>, to);
}

inline ToeplitzParams toeplitz_params(const ToeplitzPlan& plan, const ConvLaunch& call) {
  ToeplitzParams params{};
  FieldView& view = params.view;
  view = plan.view;
  // Filters are read as they are packed.
  view.w.w_step = 1, view.v.w_step = view.w.taps;
  view.u.w_step = view.v.w_step * view.v.taps;
  view.w_c = view.u.w_step * view.u.taps, view.w_k = view.w_c * view.c;
  params.filters = plan.filters;
  params.x = static_cast<const float*>(call.x);
  params.x_aligned =
      reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(call.x) / 16 * 16);
  params.packed = static_cast<const char*>(call.filters);
  params.w = reinterpret_cast<const float*>(params.packed + plan.dense_at());
  params.filter_bytes = plan.filter_bytes();
  params.filter_stage_bytes = static_cast<int>(plan.filter_stage_bytes());
  params.part_bytes = plan.filters.part_bytes(plan.products());
  params.row_bytes = plan.filters.row_bytes(plan.products());
  params.keeps_filters = plan.tiles.keeps_filters;
  params.stages = plan.tiles.stages, params.filter_stages = plan.tiles.filter_stages;
  params.lines = plan.tiles.lines, params.line = plan.tiles.line;
  params.tile_bytes = plan.tiles.tile_bytes();
  params.line_bytes = plan.tiles.line_bytes();
  params.vectors = Divisor<int>(params.line_bytes / 16);
  params.chunks = Divisor<int>(params.line / 8);
  const ToeplitzMode mode = plan.filters.mode;
  const bool line = mode == ToeplitzMode::line, planes = mode == ToeplitzMode::planes;
  params.tiles_w =
      Divisor<int>(ceil_div(view.w.outputs, line ? toeplitz_line_columns : toeplitz_columns));
  const int rows = line ? 1 : planes ? toeplitz_plane_rows : toeplitz_rows;
  params.tiles_v = Divisor<int>(ceil_div(view.v.outputs, rows));
  params.tiles_u = Divisor<int>(ceil_div(view.u.outputs, planes ? toeplitz_planes : 1));
  params.units =
      static_cast<int>(view.n * view.u.outputs * view.v.outputs * params.tiles_w.value());
  params.tiles = static_cast<int>(plan.tile_count());
  return params;
}

/// ConvAlgorithm::launch.
template <int products, ToeplitzFault fault = ToeplitzFault::none>
void launch_toeplitz(const ConvLaunch& call, const KernelPlan* kernel_plan) {
  const auto& plan = planned_value<ToeplitzPlan>(kernel_plan);
  const ToeplitzParams params = toeplitz_params(plan, call);
  const auto run = [&](auto kernel) {
    Launch(call.native_queue, blocks_for(params.tiles, 1), toeplitz_threads,
           static_cast<std::size_t>(plan.shared_bytes()))
        .resident(kernel, call.device)(kernel, params, static_cast<float*>(call.y),
                                       Epilogue<float>(call));
  };
  if constexpr (fault == ToeplitzFault::stale_plane)
    return run(toeplitz<ToeplitzMode::planes, products, fault>);
  else
    switch (plan.filters.mode) {
      case ToeplitzMode::rows: return run(toeplitz<ToeplitzMode::rows, products, fault>);
      case ToeplitzMode::line: return run(toeplitz<ToeplitzMode::line, products, fault>);
      case ToeplitzMode::planes: return run(toeplitz<ToeplitzMode::planes, products, fault>);
    }
}

}  // namespace plumb::cuda
