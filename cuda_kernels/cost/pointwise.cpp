#include "cuda_kernels/cost/pointwise.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

double channels_of(const PointwiseWork& work) {
  return static_cast<double>(work.units) * work.unit;
}
double tile_bytes(const PointwiseWork& work) {
  return work.tile_pixels * channels_of(work) * work.element_bytes;
}
/// Chunks of filters that a warp goes through with each tile.
double chunks_of_warp(const PointwiseWork& work) {
  return std::ceil(static_cast<double>(work.group_chunks) / work.warps_n);
}

/// Clocks of a multiprocessor whose warps all take a step: what is longest of products, L1 and
/// shared memory, and instructions; no less than what one warp waits.
double step_clocks(const PointwiseTable& costs, const PointwiseWork& work) {
  const double filters = 8.0 * work.n8_tiles, outputs = work.tile_pixels * filters;
  // TF32 has half of fp16's rate.
  const double rate = costs.products_per_clock * 2 / work.element_bytes;
  const double products = work.products * outputs * channels_of(work) / rate;
  const double of_x = work.reads_elements
                          ? work.tile_pixels * channels_of(work) / 32 * costs.element_clocks
                          : tile_bytes(work) / costs.l1_bytes_per_clock;
  const double readings = work.holds ? 1 / chunks_of_warp(work) : 1;
  const double of_filters =
      channels_of(work) * filters * work.element_bytes * work.planes / costs.shared_bytes_per_clock;
  const double stored = outputs * (work.writes_elements ? costs.of_element : costs.of_output);
  const double issued = costs.of_batch * work.batches + costs.issued_output * outputs;
  const double of_warps =
      work.warps * max_of({products, of_x * readings + of_filters + stored, issued});
  return max_of({of_warps, issued + products + costs.latency});
}

/// Times that x comes from L2 or memory: for each group of filters, and for each chunk where L1
/// does not hold the tiles of a block's warps.
double readings(const PointwiseTable& costs, const PointwiseWork& work) {
  const double room = costs.l1_bytes - work.group_bytes;
  const double tiles = static_cast<double>(work.warps) / work.warps_n * tile_bytes(work);
  return work.groups * (work.holds || tiles <= room ? 1 : chunks_of_warp(work));
}

}  // namespace

double pointwise_seconds(const DeviceInfo& device, const PointwiseWork& work) {
  const PointwiseTable& costs = cost_tables().pointwise;
  const Machine machine(device);
  const double tiles = std::ceil(work.pixels / work.tile_pixels);
  const double of_block = static_cast<double>(work.warps) / work.warps_n;
  const double at_once = work.blocks * of_block;
  const double waves = std::ceil(static_cast<double>(work.groups) * work.blocks / machine.units);
  const double clocks =
      waves * std::ceil(tiles / at_once) * chunks_of_warp(work) * step_clocks(costs, work);
  const double again = (readings(costs, work) - 1) * work.read_bytes;
  const double moving = machine.moving_seconds(work.read_bytes, costs.read_share) +
                        machine.moving_seconds(work.written_bytes, costs.write_share) +
                        machine.moving_seconds(again, costs.again_share);
  // What a multiprocessor's warps have in flight, each a batch of 4 KB of tiles of their own, or
  // all of the tile's where it holds them.
  const double batch_bytes = 4096.0 * (work.holds ? work.batches : 1);
  const double in_flight = of_block * batch_bytes * machine.units;
  const double waiting = readings(costs, work) * work.read_bytes / in_flight * costs.busy_latency;
  const double rereading = !work.holds && chunks_of_warp(work) > 1 ? costs.rereads : 1;
  const double filling = waves * work.group_bytes / costs.l2_bytes_per_clock + costs.latency;
  return kernel_seconds(rereading * max_of({clocks / machine.clock_hertz, moving,
                                            waiting / machine.clock_hertz}) +
                            filling / machine.clock_hertz,
                        device, 0) +
         costs.start;
}

}  // namespace plumb::cuda
