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
      (warps / work.step_parts * (work.warp_rows + work.warp_columns) + work.m + work.n) /
      shared_bytes_per_clock;
  return std::max(products, shared);
}

}  // namespace

double wide_weights_clocks(const WideWeightsCounts& work) {
  const WideTable& costs = cost_tables().wide;
  const double loaded = row_bytes * (work.m + work.n);
  const double step =
      std::max(clocks_of_products(work), loaded / costs.l2_bytes_per_clock) + costs.of_step;
  const double stored = 4.0 * work.step_parts * work.m * work.n / costs.l2_bytes_per_clock;
  const double waves = std::ceil(work.works / wide_weights_units);
  const double adding = work.sums_bytes / (costs.l2_bytes_per_clock * wide_weights_units);
  return costs.slower * (waves * (work.steps * step + costs.of_tile + stored) + adding);
}

double wide_weights_moving_clocks(const WideWeightsTraffic& traffic) {
  const WideTable& costs = cost_tables().wide;
  // Of an H100: 3.35 TB/s at 1.98 GHz.
  constexpr double bytes_per_clock = 1700, clocks_per_second = 1.98e9;
  return costs.slower * traffic.read_bytes / (bytes_per_clock * costs.read_share) +
         traffic.repacked_bytes / (bytes_per_clock * costs.repacking_share) +
         traffic.repackings * costs.next_kernel * clocks_per_second;
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
  return slower * kernel_seconds(tiles + reading, device, 0) + costs.start + costs.next_kernel +
         machine.moving_seconds(traffic.repacked_bytes, costs.repacking_share) +
         traffic.repackings * costs.next_kernel;
}

}  // namespace plumb::cuda
