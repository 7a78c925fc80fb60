#include "cuda_kernels/cost/wide_weights.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

// Steps, tiles and repacking are those of wide/, and so are what they cost.

namespace {

constexpr double row_bytes = 128;  // of a filter or a column in a step

/// Clocks of a step's products, or of reading its operands from shared memory.
double clocks_of_products(const WideWeightsCounts& work) {
  const WideTable& costs = cost_tables().wide;
  if (work.warp_rows == 0) {
    constexpr double step_terms = 64;
    return step_terms * work.m * work.n / costs.products_per_clock;
  }
  // TF32 has half the rate and half the terms in a row.
  constexpr double step_terms = 32, tf32_share = 0.5, warps = 8;
  const double mma_sync_share = cost_tables().wide_weights.mma_sync_share;
  const double products = step_terms * work.step_products * work.m * work.n /
                          (tf32_share * mma_sync_share * costs.products_per_clock);
  // Each warp reads its rows and columns of its part of the pixels; the copy engine writes those of
  // the tile.
  constexpr double shared_bytes_per_clock = 128;
  const double shared =
      row_bytes *
      (warps / work.step_parts * (work.warp_rows + work.warp_columns) + work.loaded_rows) /
      shared_bytes_per_clock;
  return std::max(products, shared);
}

/// Clocks of a kernel that adds the splits, on all multiprocessors: its loads, and what a warp does
/// for each 128 weights, by the instructions of the code for sm_90a where blocks have four filters.
double clocks_of_adding(const WideWeightsCounts& work) {
  constexpr double of_128 = 90, of_128_sums = 12, issued_per_clock = 4, sum_bytes = 4;
  const double instructions = (of_128 * work.weights + of_128_sums * work.sums) / 128;
  return (sum_bytes * work.sums / cost_tables().wide.l2_bytes_per_clock +
          instructions / issued_per_clock) /
         wide_weights_units;
}

}  // namespace

double wide_weights_clocks(const WideWeightsCounts& work) {
  const WideTable& costs = cost_tables().wide;
  const double loaded = row_bytes * work.loaded_rows;
  const WideWeightsTable& own = cost_tables().wide_weights;
  const double of_step = work.warp_rows == 0 ? own.of_step : costs.of_step;
  const double step =
      std::max(clocks_of_products(work), loaded / costs.l2_bytes_per_clock) + of_step;
  const double stored = 1.0 * work.stored_bytes * work.m * work.n / costs.l2_bytes_per_clock;
  const double waves = std::ceil(work.works / wide_weights_units);
  const double adding = clocks_of_adding(work);
  return costs.slower * (waves * (work.steps * step + costs.of_tile + stored) + adding);
}

double wide_weights_moving_clocks(const WideWeightsTraffic& traffic) {
  const WideTable& costs = cost_tables().wide;
  // Of an H100: 3.35 TB/s at 1.98 GHz.
  constexpr double bytes_per_clock = 1700, clocks_per_second = 1.98e9;
  return costs.slower * traffic.read_bytes / (bytes_per_clock * costs.read_share) +
         traffic.repacked_bytes / (bytes_per_clock * cost_tables().wide_weights.repacking_share) +
         traffic.other_kernels * costs.next_kernel * clocks_per_second;
}

double wide_weights_seconds(const DeviceInfo& device, double clocks,
                            const WideWeightsTraffic& traffic, bool by_mma_sync) {
  const WideTable& costs = cost_tables().wide;
  const WideWeightsTable& measured = cost_tables().wide_weights;
  const Machine machine(device);
  const double tiles = clocks * wide_weights_units / (machine.units * machine.clock_hertz);
  const double reading =
      costs.slower * machine.moving_seconds(traffic.read_bytes, costs.read_share);
  const double slower = by_mma_sync ? measured.mma_sync_slower : measured.slower;
  const double all = slower * kernel_seconds(tiles + reading, device, 0) + costs.start +
                     machine.moving_seconds(traffic.written_bytes, costs.write_share) +
                     machine.moving_seconds(traffic.repacked_bytes, measured.repacking_share) +
                     traffic.other_kernels * costs.next_kernel;
  return all * (traffic.scaled_few ? measured.few : 1);
}

}  // namespace plumb::cuda
