// What a launch of the kernel for few terms does, and what its entries have in common.
#pragma once

#include <algorithm>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/pointwise/pointwise_launch.cuh"
#include "cuda_kernels/pointwise/pointwise_taps_kernel.cuh"
#include "cuda_kernels/pointwise/pointwise_taps_pack.cuh"

namespace plumb::cuda {

/// Returns what the kernel is told of a slice.
template <class Arithmetic>
TapsParams<Arithmetic> taps_params(const ConvProblem& p, const TapsPlan& plan,
                                   const PointwiseCall& call,
                                   const Epilogue<typename Arithmetic::Stored>& epilogue) {
  using Stored = typename Arithmetic::Stored;
  const TapsFilters& filters = plan.filters;
  const TapsRun run(p);
  const auto* const packed = static_cast<const char*>(call.filters);
  const std::int64_t pixels = p.n * p.z() * p.p() * p.q();
  const auto misaligned = reinterpret_cast<std::uintptr_t>(call.y) % pointwise_vector_bytes;
  return {.x = static_cast<const Stored*>(call.x),
          .filters = packed,
          .dense = reinterpret_cast<const Stored*>(packed + filters.dense_at()),
          .y = static_cast<Stored*>(call.y),
          .epilogue = epilogue,
          .images = TapsImages(p, filters.terms),
          .k = filters.k,
          .steps = filters.steps(),
          .tiles =
              static_cast<int>(ceil_div(pixels, std::int64_t{TapsParams<Arithmetic>::tile_pixels})),
          .chunks = filters.chunks,
          .chunk_bytes = filters.chunk_bytes(),
          .group_chunks = plan.cut.group_chunks,
          .groups = Divisor<int>(plan.cut.groups),
          .blocks = plan.cut.blocks,
          .run = Divisor<int>(run.pixels),
          .run_step = static_cast<int>(run.step),
          .misaligned = static_cast<int>(misaligned / sizeof(Stored)),
          .output = taps_output(p, filters, epilogue.accumulate, call.y)};
}

/// Puts a convolution on the stream, slice after slice.
template <class Arithmetic>
void launch_taps(const ConvProblem& problem, const TapsPlan& plan, const PointwiseCall& call,
                 const Epilogue<typename Arithmetic::Stored>& epilogue, void* stream) {
  using Stored = typename Arithmetic::Stored;
  constexpr int few = taps_rooms[0] / Arithmetic::unit, many = taps_rooms[1] / Arithmetic::unit;
  ConvProblem p = problem;
  for (std::int64_t first = 0; first < problem.n; first += plan.images) {
    p.n = std::min(plan.images, problem.n - first);
    PointwiseCall some = call;
    some.x = static_cast<const Stored*>(call.x) + first * problem.x_strides[0];
    some.y = static_cast<Stored*>(call.y) + first * problem.y_strides[0];
    const auto params = taps_params<Arithmetic>(p, plan, some, epilogue);
    Launch launch(stream, static_cast<unsigned>(plan.cut.groups * plan.cut.blocks), 32 * taps_warps,
                  plan.shared_bytes());
    if (plan.filters.units == few)
      launch(pointwise_taps<Arithmetic, few>, params);
    else
      launch(pointwise_taps<Arithmetic, many>, params);
  }
}

template <class Arithmetic>
PlanResult plan_taps(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_taps(problem, Arithmetic::host, device)};
  if (!result.support) return result;
  const TapsPlan plan(problem, Arithmetic::host, device);
  result.estimate_seconds = plan.seconds;
  result.filter_bytes = plan.filters.bytes();
  result.kernel = planned(plan);
  return result;
}

template <class Arithmetic>
void pack_taps_algorithm(const FilterPacking& packing, const KernelPlan* plan) {
  pack_taps_filters<Arithmetic>(packing.problem, planned_value<TapsPlan>(plan).filters, packing.w,
                                packing.filters, packing.native_queue);
}

template <class Arithmetic>
void launch_taps_algorithm(const ConvLaunch& call, const KernelPlan* plan) {
  launch_taps<Arithmetic>(call.problem, planned_value<TapsPlan>(plan),
                          {.x = call.x, .filters = call.filters, .y = call.y},
                          Epilogue<typename Arithmetic::Stored>(call), call.native_queue);
}

template <class Arithmetic>
constexpr ConvAlgorithm taps_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Arithmetic::host.products,
                   .term_multiple = 16},
      .forced_only = true,
      .takes_depth = true,
      .accumulates = true,
      .plan = plan_taps<Arithmetic>,
      .pack_filters = pack_taps_algorithm<Arithmetic>,
      .launch = launch_taps_algorithm<Arithmetic>,
  };
}

}  // namespace plumb::cuda
