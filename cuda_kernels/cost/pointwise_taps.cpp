#include "cuda_kernels/cost/pointwise_taps.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

constexpr double lanes = 32;

double terms_of(const TapsWork& work) { return static_cast<double>(work.steps) * work.step_terms; }

/// Clocks of a multiprocessor to gather a tile, all of whose warps load at the same time.
double gather_clocks(const PointwiseTapsTable& costs, const TapsWork& work) {
  const double loads = work.tile_pixels * terms_of(work) / lanes;
  const double issued =
      loads * (work.padded ? costs.of_padded : costs.of_load) + work.warps * costs.of_tile;
  return max_of({loads * costs.gathered, issued / costs.issued});
}

/// Those of a chunk: the longest of its products, its instructions and its stores.
double chunk_clocks(const PointwiseTapsTable& costs, const TapsWork& work) {
  const double outputs = static_cast<double>(work.tile_pixels) * work.chunk_filters;
  // TF32 has half of fp16's rate.
  const double rate = costs.products_per_clock * 2 / work.element_bytes;
  const double products = work.products * outputs * terms_of(work) / rate;
  const double issued = work.warps * costs.of_chunk + outputs / lanes * costs.of_output;
  const double alone = work.writes_elements ? outputs * costs.of_element : 0;
  return max_of({products, issued / costs.issued, alone});
}

}  // namespace

double taps_seconds(const DeviceInfo& device, const TapsWork& work) {
  const PointwiseTapsTable& costs = cost_tables().pointwise_taps;
  const Machine machine(device);
  const double all = static_cast<double>(work.groups) * work.blocks;
  const double resident = std::min<double>(work.resident, std::ceil(all / machine.units));
  const double waves = std::ceil(all / (machine.units * resident));
  const double tiles = std::ceil(std::ceil(work.pixels / work.tile_pixels) / work.blocks);
  const double throughput =
      gather_clocks(costs, work) + work.group_chunks * chunk_clocks(costs, work);
  const double latency = costs.load_latency + work.group_chunks * costs.chunk_latency;
  const double clocks = waves * tiles * max_of({resident * throughput, latency});
  const double moving =
      machine.moving_seconds(work.read_bytes, costs.read_share) +
      machine.moving_seconds(work.written_bytes, costs.write_share) +
      machine.moving_seconds((work.groups - 1) * work.read_bytes, costs.again_share);
  const double filling = waves * work.group_bytes / costs.l2_bytes_per_clock + costs.load_latency;
  return kernel_seconds(
             max_of({clocks / machine.clock_hertz, moving}) + filling / machine.clock_hertz, device,
             0) +
         costs.start;
}

}  // namespace plumb::cuda
