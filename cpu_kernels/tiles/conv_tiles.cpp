// Convolutions of bf16 with sums in fp32 by AMX or AVX512-BF16.
//
// Each sum is formed in one order, whatever else is computed, but not in the order of its terms:
// the instructions add products in pairs.
#include "cpu_kernels/tiles/conv_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/instruction_set.hpp"
#include "cpu_kernels/tiles/tiles_band.hpp"
#include "cpu_kernels/tiles/tiles_kernels.hpp"
#include "cpu_kernels/tiles/tiles_plan.hpp"
#include "plumb/support.hpp"

namespace plumb {
namespace {

using std::int64_t;

const TileKernels* kernels_of(const DeviceInfo& device) {
#ifdef PLUMB_TILES
  switch (instruction_set_of(device.instruction_set)) {
    case InstructionSet::amx: return &tiles_kernels_amx;
    case InstructionSet::avx512_bf16: return &tiles_kernels_avx512_bf16;
    default: return nullptr;
  }
#else
  (void)device;
  return nullptr;
#endif
}

int64_t slots(const ConvProblem& problem, const TilesPlan& plan, const DeviceInfo& device) {
  return slots_of(problem, device, plan.tasks(problem), 0, slot_bytes(plan));
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_dtypes({DType::bf16}, problem)};
  if (!result.support) return result;
  if (!kernels_of(device)) {
    result.support = {Reason::device_limit,
                      fmt::format("the instruction set is {}; expected avx512_bf16 or amx",
                                  device.instruction_set)};
    return result;
  }
  const double terms = static_cast<double>(problem.terms()) +
                       2.0 * tile_terms * static_cast<double>(problem.t * problem.r);
  if (terms > 1 << 26) {
    result.support = {Reason::too_large, "more than 2^26 terms with their padding"};
    return result;
  }
  auto plan = std::make_shared<TilesPlan>(problem, device.units);
  if (slot_bytes(*plan) > workspace_limit_bytes) {
    result.support = {
        Reason::too_large,
        fmt::format("the input of the smallest band takes {} bytes; expected at most {}",
                    plan->slab_bytes, workspace_limit_bytes)};
    return result;
  }
  result.filter_bytes = padded(problem.groups * plan->packed_tiles() * plan->packed_elements() *
                               int64_t{sizeof(BFloat16)});
  if (problem.n > 0) {
    result.workspace_bytes =
        static_cast<std::size_t>(slots(problem, *plan, device)) * slot_bytes(*plan);
    const bool amx = instruction_set_of(device.instruction_set) == InstructionSet::amx;
    // In fp32 operations: what the units do, and what of it is reached. A slab is x once more.
    const double rate = (amx ? 16 * 0.5 : 2 * 0.8) * device.nominal_fp32_flop_per_second;
    const double slab_bytes =
        plan->in_place ? 0 : static_cast<double>(element_count(problem.x_extents()) * int64_t{2});
    result.estimate_seconds = 2 * plan->products / rate +
                              (problem.bytes() + slab_bytes) / device.nominal_bytes_per_second;
  }
  result.kernel = std::move(plan);
  return result;
}

/// Packs `tile_side` filters; what is none is zero.
void pack_tile(const FilterPacking& packing, const TilesPlan& plan, int64_t group, int64_t tile,
               BFloat16* to) {
  const ImageStrides w = image_strides(packing.problem.w_strides);
  const int64_t filters = std::min<int64_t>(plan.group_k - tile * tile_side, tile_side);
  const auto* const from =
      static_cast<const BFloat16*>(packing.w) + (group * plan.group_k + tile * tile_side) * w.n;
  std::fill_n(to, plan.packed_elements(), BFloat16{});
  for (const TilesStep& step : plan.steps) {
    for (int64_t i = 0; i < std::min<int64_t>(tile_terms, plan.run_terms - step.term); ++i) {
      const int64_t tap = (step.term + i) / plan.group_c, c = (step.term + i) % plan.group_c;
      const BFloat16* const weight =
          from + c * w.c + step.t * w.d + step.r * w.h + (step.run + tap) * w.w;
      BFloat16* const place = to + i / 2 * 2 * tile_side + i % 2;
      for (int64_t k = 0; k < filters; ++k) place[2 * k] = weight[k * w.n];
    }
    to += step_filters;
  }
}

void pack_filters(const FilterPacking& packing, const KernelPlan* kernel) {
  const auto& plan = static_cast<const TilesPlan&>(*kernel);
  const int threads =
      std::min(packing.device.units, worthwhile_threads(packing.problem, available_threads()));
  auto* const filters = static_cast<BFloat16*>(packing.filters);
  const int64_t tiles = plan.packed_tiles();
  parallel_for(threads, packing.problem.groups * tiles, [&](int64_t tile) {
    pack_tile(packing, plan, tile / tiles, tile % tiles, filters + tile * plan.packed_elements());
  });
}

void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const TilesPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const TileKernels& kernels = *kernels_of(launch.device);
  const int threads =
      std::min(static_cast<int>(slots(problem, plan, launch.device)), available_threads());
  parallel_shares(threads, plan.tasks(problem), [&](const auto& take, int thread) {
    TilesBand band(launch, plan, kernels,
                   static_cast<std::byte*>(launch.workspace) +
                       static_cast<std::size_t>(thread) * slot_bytes(plan));
    for (int64_t task = take(); task >= 0; task = take()) band.run(task);
  });
}

}  // namespace

const ConvAlgorithm conv_tiles_bf16{
    .name = "cpu.conv.tiles.bf16",
    .numerics = {.operand = Operand::bf16,
                 .accumulator = Accumulator::fp32_flushed,
                 .term_multiple = tile_terms,
                 .invariant = true},
    .takes_depth = true,
    .accumulates = true,
    .plan = plan,
    .pack_filters = pack_filters,
    .launch = launch,
};

}  // namespace plumb
