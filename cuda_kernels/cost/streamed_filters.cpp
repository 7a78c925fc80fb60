// This models tiles whose filters stream through shared memory: the work that a multiprocessor
// shares, the chain of each warp, and moving overlap.
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

double WindowModel::streamed_passes(const WindowTiles& tile) const {
  const double windows = number(std::int64_t{tile.images} * tile.strips * tile.windows);
  return std::ceil(windows / unit_.warp_windows() / (tile.threads / 32));
}

double WindowModel::streamed_bytes(const WindowTiles& tile) const {
  const Extents y = problem_.y_extents();
  const double planes = number(y[0] * y[1]);
  // A tile of whole rows is one run, except where other passes of the block write in between.
  const double runs =
      tile.column_tiles > 1
          ? number(y[2] * tile.column_tiles)
          : number(tile.bands) * (1 + (streamed_passes(tile) - 1) * unit_.fragments) / tile.images;
  const double late = tile.whole_sectors ? 0 : planes * runs * streamed_.late_bytes;
  const bool in_pieces = y[2] * y[3] * stored_bytes_ < memory_sector_bytes;
  const double pieces = in_pieces ? planes * streamed_.piece_bytes : 0;
  const double read = loaded_elements(tile) * number(stored_bytes_);
  const double of_x =
      number(depth_.volumes * depth_.planes * problem_.c * problem_.h * problem_.w * stored_bytes_);
  return bytes_ + late + pieces + streamed_.halo_share * std::max(read - of_x, 0.0);
}

double WindowModel::streamed_clocks(const WindowTiles& tile) const {
  const double blocks = tile.blocks, warps = tile.threads / 32, n8_tiles = unit_.filter_n8_tiles;
  const double strip_rows = unit_.fragments, k_steps = tile.filter_strips.k_steps();
  // Warps that share a stream of filters go through all of it.
  const double passes = streamed_passes(tile), tasks = passes * warps;
  const double fragments =
      number(tile.filter_strips.count) * (tile.filter_strips.length + strip_rows - 1);
  const double rows_of_k_steps = k_steps * strip_rows,
               products = rows_of_k_steps * costs_.mmas_of_k_step;
  // The clocks are those of four warps, which multiply by themselves or together. A warp by itself
  // reads a k step's filters for all rows; together two of three products are one of twice the
  // columns.
  const bool together = unit_.warpgroups;
  const auto of_columns = [&](double of_n8_tiles) {
    return std::max(streamed_.clocks_of_product, streamed_.clocks_of_n8_tile * of_n8_tiles);
  };
  const double tensor = !together ? products * 4 / few_.steps_per_clock * n8_tiles
                        : costs_.products == 3
                            ? rows_of_k_steps * (of_columns(n8_tiles) + of_columns(2 * n8_tiles))
                            : products * of_columns(n8_tiles);
  const double filters_read =
      together ? products * n8_tiles / 2 : k_steps * n8_tiles * costs_.k_step_bytes / 4;
  const bool fours = terms_.shifts == 2 && problem_.pool == Pool::none && steps_of(4) &&
                     problem_.q() % 4 == 0 && tile.windows % 2 == 0;
  const double of_products =
      together ? products * streamed_.issued_of_product : (products + k_steps) * n8_tiles;
  const double of_task =
      fragments * streamed_.issued_of_fragment + of_products + streamed_.issued_of_task +
      strip_rows * n8_tiles * (fours ? streamed_.issued_to_store_fours : streamed_.issued_to_store);
  const double loading = streamed_loading(tile);
  const double element_words = costs_.element_bytes / 4.0;
  const double waves = tasks * (10.4 * element_words * fragments + filters_read) +
                       6 * element_words * number(input_rows(tile)) * tile.pitch / 64;
  const double streamed = tile.k_tiles > 1 ? passes * k_steps * n8_tiles * 32 *
                                                 costs_.k_step_bytes / streamed_.bytes_per_clock
                                           : 0;
  const double shared =
      max_of({(tasks * of_task + loading + 150 * warps) / streamed_.issued_per_clock,
              tasks / 4 * tensor, waves / streamed_.waves_per_clock, streamed});
  const double of_filter_strips = tile.filter_strips.length == 1
                                      ? rows_of_k_steps * streamed_.clocks_of_fragment
                                      : tile.filter_strips.count * streamed_.clocks_of_strip +
                                            k_steps * streamed_.clocks_of_step + 0.6 * tensor;
  const double by_itself =
      few_.clocks_to_next * (fragments * streamed_.issued_of_fragment + of_products + tensor / 2);
  const double of_k_tiles = tile.k_tiles > 1 ? streamed_.clocks_of_k_tile * tile.k_tiles : 0;
  const double chain = (together ? of_filter_strips + of_k_tiles : by_itself) +
                       std::ceil(strip_rows * n8_tiles / 4) * streamed_.clocks_to_store;
  const double waited = streamed_.clocks_of_tile + 2 * loading / warps +
                        clocks_to_read(tile, streamed_.clocks_of_load);
  return max_of(
             {shared * (tile.blocks == 1 ? streamed_.of_one_block : 1), passes * chain / blocks}) +
         waited / blocks;
}

double WindowModel::first_scale_seconds(const WindowTiles& tile) const {
  if (!costs_.scaled || !unit_.streams) return 0;
  const double clocks = streamed_loading(tile) * 2 / (tile.threads / 32) +
                        clocks_to_read(tile, streamed_.clocks_of_load);
  return streamed_.scale_seconds + streamed_.scale_loads * clocks / machine_.clock_hertz;
}

double WindowModel::streamed_loading(const WindowTiles& tile) const {
  const double of_pair = costs_.scaled ? streamed_.issued_of_pair : streamed_.issued_of_plain_pair;
  return issued_to_load(
      tile,
      {.fours = 0.6 * of_pair, .staged = of_pair, .row = 20, .turn = 3.2 * of_pair, .besides = 0});
}

double WindowModel::streamed_seconds(const WindowTiles& tile) const {
  const double clocks = tile.blocks * rounds(tile) * streamed_clocks(tile);
  return max_of({clocks / machine_.clock_hertz,
                 machine_.moving_seconds(streamed_bytes(tile), streamed_.bandwidth_share)}) +
         streamed_.pack_seconds + streamed_.launch_seconds;
}

double streamed_filters_seconds(const WindowCosts& costs, double predicted) {
  const StreamedFiltersTable& table = cost_tables().streamed_filters;
  const double tiles = std::max(predicted - table.launch_seconds - table.pack_seconds, 0.0);
  if (costs.products == 3) return table.split_seconds + table.split_measured * tiles;
  if (costs.mmas_of_k_step > 1) return table.tf32_seconds + table.tf32_measured * tiles;
  return table.half_seconds + table.half_measured * tiles;
}

}  // namespace plumb::cuda
