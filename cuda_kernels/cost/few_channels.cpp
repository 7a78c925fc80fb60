// This models tiles whose filters of a group all stay in shared memory: products, instructions,
// shared memory and moving overlap, and what a block waits for by itself comes on top.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/cost/tables.hpp"
#include "cuda_kernels/cost/window_model.hpp"
#include "cuda_kernels/cost/windows.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

double WindowModel::writing(const WindowTiles& tile) const {
  if (tile.whole_sectors || tile.y_pitch > 0) return 1;
  const double under_way = number(tile.images * filters() * rows(tile) * columns(tile)) *
                           static_cast<double>(stored_bytes_) * tile.blocks * machine_.units;
  const double sectors = number(warp_columns() * stored_bytes_) / memory_sector_bytes;
  return steps_of(2) && under_way < few_.joined_bytes ? few_.joined_pieces * (sectors + 1) / sectors
                                                      : few_.lost_pieces;
}

double WindowModel::issued_of_task(const WindowTiles& tile, double steps, double k_steps) const {
  const double pairs = unit_.fragments, n8_tiles = unit_.filter_n8_tiles;
  const bool one_by_one = tile.y_pitch == 0 && !steps_of(2);
  const double storing = terms_.shifts == 1 ? few_.store_strided
                         : one_by_one       ? few_.store_one_by_one
                                            : few_.store_pairs;
  const double own = few_.issued_of_task;
  const double again = rows_stay() ? 0 : 4 * pairs;
  if (unit_.warpgroups)  // every row is kept twice, and every product has an address
    return 1.3 * steps / n8_tiles + (2 + 0.9 * costs_.element_bytes) * rows_read() + own +
           pairs * n8_tiles * storing;
  return steps + 0.88 * rows_read() + k_steps * (n8_tiles + 4 + again) + own +
         pairs * n8_tiles * storing;
}

bool WindowModel::rows_stay() const {
  return terms_.segment_rows == 1 && !terms_.wide() && problem_.stride.h == 1;
}

double WindowModel::rows_read() const {
  const double rows = 2 * unit_.fragments;
  return number(channels_) * (rows_stay() ? rows + terms_.segments - 1 : rows * terms_.segments);
}

double WindowModel::issued_to_write(const WindowTiles& tile) const {
  const double stretches = number(tile.images * filters());
  const double of_runs =
      tile.y_row_pitch > 0 ? 110.0 * number(tile.y_pitch / tile.y_row_pitch) * stretches : 0;
  return 10 * number(tile.y_pitch) * stretches / 64 + of_runs;
}

double WindowModel::resident_clocks(const WindowTiles& tile) const {
  const double blocks = tile.blocks, warps = tile.threads / 32, n8_tiles = unit_.filter_n8_tiles;
  const double together = unit_.warpgroups ? 4 : 1;  // warps
  const double windows = number(std::int64_t{tile.images} * tile.strips * tile.windows);
  const double tasks = std::ceil(windows / unit_.warp_windows() / together) * together;
  const double tensor_rate =
      unit_.warpgroups ? few_.warpgroup_steps_per_clock : few_.steps_per_clock;
  const double k_steps = number(channels_) * terms_.segments / 2.0;
  const double steps = k_steps * unit_.fragments * n8_tiles * costs_.mmas_of_k_step;
  const double of_filters =
      unit_.warpgroups ? steps * 2 / together : k_steps * n8_tiles * costs_.k_step_bytes / 4;
  const double waves = rows_read() * costs_.element_bytes / 2.0 + of_filters;
  const double of_task = issued_of_task(tile, steps, k_steps);
  const double loading = issued_to_load(tile, {.fours = few_.load_fours,
                                               .staged = few_.load_staged,
                                               .row = few_.load_row,
                                               .turn = few_.load_turn,
                                               .besides = costs_.scaled ? few_.load_scaled : 0});
  const double issued =
      tasks * of_task + loading + issued_to_write(tile) + few_.issued_of_tile * warps;
  // The blocks of a multiprocessor share `shared` clocks; each waits for `waited` clocks by itself.
  const double shared = max_of({issued / few_.issued_per_clock, tasks * steps / tensor_rate,
                                tasks * waves / few_.waves_per_clock});
  const double of_chain = few_.clocks_to_next * (of_task + 2 * steps / tensor_rate);
  const double waited = std::ceil(tasks / warps) * (few_.clocks_of_task + of_chain) +
                        2 * loading / warps + few_.clocks_of_tile +
                        clocks_to_read(tile, few_.clocks_of_load);
  return shared * (tile.blocks == 1 ? few_.of_one_block : 1) + waited / blocks;
}

double WindowModel::resident_seconds(const WindowTiles& tile) const {
  // A block copies a group's packed filters from L2, as it does filters that stream.
  const double copying = number(channels_ * terms_.k_steps() * unit_.filter_n8_tiles) * 32 *
                         costs_.k_step_bytes / streamed_.bytes_per_clock;
  const Extents y = problem_.y_extents();
  const double y_bytes = number(y[0] * y[1] * y[2] * y[3] * stored_bytes_);
  const double clocks = tile.blocks * (rounds(tile) * resident_clocks(tile) + copying);
  return max_of({clocks / machine_.clock_hertz,
                 machine_.moving_seconds(bytes_ + y_bytes * (writing(tile) - 1),
                                         few_.bandwidth_share)}) +
         few_.pack_seconds + few_.launch_seconds;
}

double few_channels_seconds(const ConvProblem& problem, const WindowCosts& costs, bool tall,
                            double predicted) {
  const FewChannelsTable& table = cost_tables().few_channels;
  struct Scheme {
    double seconds, measured, tall;
  };
  const Scheme scheme = [&]() -> Scheme {
    if (costs.products == 3) return {table.split_seconds, table.split_measured, table.split_tall};
    if (costs.scaled) return {table.scaled_seconds, table.scaled_measured, table.scaled_tall};
    if (costs.mmas_of_k_step > 1) return {table.tf32_seconds, table.tf32_measured, table.tf32_tall};
    return {table.half_seconds, table.half_measured, table.half_tall};
  }();
  const double tiles = std::max(predicted - table.launch_seconds - table.pack_seconds, 0.0);
  // The prediction for a small batch is taken as it is.
  const double small = std::min(tiles, table.tall_small_seconds);
  const double one_channel = product_channels(problem) == 1 ? table.tall_one_channel : 1;
  const double share = tall ? scheme.tall * one_channel : 1;
  return scheme.seconds + scheme.measured * (small + share * (tiles - small));
}

}  // namespace plumb::cuda
