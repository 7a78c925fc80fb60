#include "cuda_kernels/cost/ladder.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/cost/scattered.hpp"
#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

template <class T>
double number(T value) {
  return static_cast<double>(value);
}

}  // namespace

double constant_filters_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  const LadderTable& costs = cost_tables().ladder;
  return output_a_thread_seconds(problem, device,
                                 {.issued_flop = problem.flop(),
                                  .share = 1 / costs.constant_divisor,
                                  .term_clocks = costs.constant_term_clocks}) +
         scattered_seconds(problem, Machine(device), 1);
}

double shared_tile_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           double issued_flop) {
  const LadderTable& costs = cost_tables().ladder;
  const double taps = number(problem.r * problem.s);
  const double made = output_a_thread_seconds(
      problem, device,
      {.issued_flop = issued_flop * (1 + costs.shared_channel_terms / taps),
       .share = 1 / costs.shared_divisor,
       .term_clocks = costs.shared_term_clocks + costs.shared_channel_clocks / taps});
  return made + scattered_seconds(problem, Machine(device), 1);
}

double shared_tile_constant_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                    double issued_flop, bool copied) {
  const LadderTable& costs = cost_tables().ladder;
  const double divisor = copied ? costs.shared_copied_divisor : costs.shared_constant_divisor;
  const double made = output_a_thread_seconds(
      problem, device,
      {.issued_flop = issued_flop, .share = 1 / divisor, .term_clocks = costs.shared_term_clocks});
  return made + scattered_seconds(problem, Machine(device), 1);
}

double half2_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  const double share = 1 / cost_tables().ladder.half2_divisor;
  return kernel_seconds(
      model_seconds(problem, device, Accumulator::fp16_fma, problem.flop(), share), device, 0);
}

double scatter_atomics_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  const double share = 1 / cost_tables().ladder.scatter_divisor;
  return kernel_seconds(
      model_seconds(problem, device, Accumulator::fp32_fma, problem.flop(), share), device, 0);
}

double narrow_fragments_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                const NarrowFragments& of) {
  const LadderTable& costs = cost_tables().ladder;
  const BandTile& tile = of.tile;
  const double blocks = number(of.blocks), channels = number(problem.c / problem.groups);
  const double chunks = std::ceil(channels / number(tile.channels));
  const double tasks = std::ceil(number(tile.images * tile.rows * tile.columns) / of.task_pixels);
  const double steps = chunks * of.steps;
  // A task takes its steps, a prologue and an epilogue.
  const double step = costs.narrow_step + costs.narrow_step_n8 * of.n8_tiles;
  const double around = costs.narrow_around + costs.narrow_around_n8 * of.n8_tiles;
  const double rows = number(tile.images * tile.x_rows) * channels;
  const double loading = rows * (48 + 20 * number(ceil_div(tile.pitch, 32)));
  const double waves = blocks * tasks * steps * (4 * of.fragments + 2 * of.n8_tiles + 1);
  const double issuing =
      model_seconds(problem, device,
                    {.instructions = 32 * blocks * (tasks * (steps * step + around) + loading),
                     .shared_waves = waves});
  // Fragments are stored in pieces of eight pixels of a row.
  const int y_vector = row_vector(nullptr, problem.y_extents(), problem.y_strides,
                                  static_cast<std::int64_t>(size_in_bytes(problem.dtype)));
  const double moving = moving_seconds(problem, device, y_vector, costs.narrow_moving);
  // Lanes of a fragment have eight pixels and every second of eight filters.
  const double full =
      std::max(issuing, moving) + scattered_seconds(problem, Machine(device), 4) +
      gathered_seconds(problem, Machine(device), blocks * rows * number(tile.pitch));
  const double of_warp =
      std::ceil(tasks / of.block_warps) * (steps * step + around) + loading / of.block_warps;
  return kernel_seconds(full, device, costs.narrow_instruction_clocks * of_warp);
}

double index_reuse_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const ReuseTiles& tiles) {
  const LadderTable& costs = cost_tables().ladder;
  const double steps = number(ceil_div(problem.terms(), std::int64_t{tiles.step_terms}));
  const double step = costs.reuse_step + costs.reuse_step_filter * tiles.filters;
  const double instructions =
      number(tiles.count) * tiles.threads * (step * steps + costs.reuse_around);
  const double step_clocks =
      tiles.filters == 16 ? costs.reuse_step_clocks_16 : costs.reuse_step_clocks_32;
  // Lanes of a fragment have eight filters and every second of eight pixels.
  return kernel_seconds(
      costs.reuse_measured * model_seconds(problem, device, {.instructions = instructions}) +
          scattered_seconds(problem, Machine(device), 8),
      device, steps * step_clocks);
}

double tensor_core_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const FragmentTiles& tiles) {
  const LadderTable& costs = cost_tables().ladder;
  const double steps = number(ceil_div(problem.terms(), std::int64_t{tiles.step_terms}));
  const double elements = number(tiles.count) * steps * 2 * tiles.side * tiles.step_terms;
  const double step_clocks =
      tiles.side == 16 ? costs.tensor_core_step_clocks_16 : costs.tensor_core_step_clocks_32;
  const double instructions = costs.tensor_core_element * elements;
  // Lanes of a fragment have eight filters and every second of eight pixels.
  return kernel_seconds(model_seconds(problem, device, {.instructions = instructions}) +
                            scattered_seconds(problem, Machine(device), 8),
                        device, steps * step_clocks);
}

}  // namespace plumb::cuda
