#include "cuda_kernels/cost/grouped.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

/// What a block does for a tile.
struct TileClocks {
  double busy = 0;     ///< of the multiprocessor
  double latency = 0;  ///< until a block that is alone has done it
};

TileClocks clocks_of(const GroupedTable& costs, const GroupedWork& work) {
  const double n8 = work.beside * work.bundles, fragments = n8 * work.m16;
  const double outputs = work.works * fragments * 128;
  const double runs = work.by_units ? 0 : work.units / work.x_run,
               vectors = outputs / (work.by_filters ? 16 / work.size : work.y_run);
  const double of_step = costs.of_step + n8 + fragments;
  const double rounded = work.size > 2 ? work.units : 0;
  const double instructions =
      work.works * (costs.of_work + costs.of_load * work.loads + work.steps * of_step +
                    costs.of_fragment * fragments) +
      (costs.place * work.pixels + (work.by_units ? costs.unit * work.units : 0) +
       costs.rounded * rounded + costs.run * runs + costs.run_pixel * runs * work.x_run +
       costs.vector * vectors) /
          32;
  // A fragment of x is 512 bytes, four wavefronts; one of filters 256; one of outputs by filters
  // as many bytes as it has, and else one for each row of eight pixels by a lane's two filters.
  const double waves = work.works * (4 * work.loads + work.steps * 2 * n8 +
                                     fragments * (work.by_filters ? work.size : 4)) +
                       work.units * work.conflicts / 8 + outputs * work.size / 128;
  const double products = work.works * work.steps * fragments * costs.product;
  TileClocks clocks;
  clocks.busy = max_of({instructions / (4 * costs.issued), waves / costs.waves, products});
  // A warp alone has one of four pipes, and waits for what its instructions before have made.
  const double step = costs.step_wait + 4 * costs.product * fragments;
  clocks.latency = costs.begin + costs.turn * instructions / work.warps +
                   work.longest * (work.steps * step + costs.end);
  return clocks;
}

}  // namespace

double grouped_seconds(const DeviceInfo& device, const GroupedWork& work) {
  const GroupedTable& costs = cost_tables().grouped;
  const Machine machine(device);
  const TileClocks tile = clocks_of(costs, work);
  // Blocks are shared out evenly, and more of them than a multiprocessor has room for in turn.
  const double of_unit = std::ceil(work.blocks / machine.units);
  const double turns = std::ceil(of_unit / work.resident);
  const double at_once = std::min(of_unit, work.resident);
  const double clocks = turns * (work.tiles_of_block * max_of({tile.latency, at_once * tile.busy}) +
                                 at_once * work.filter_bytes / costs.l2_bytes_per_clock);
  // What lies side by side begins and ends in parts of lines.
  const auto in_parts = [&](double bytes) { return 1 + costs.line_bytes / bytes; };
  const double moving =
      machine.moving_seconds(work.read_bytes * in_parts(work.x_row_bytes), costs.read_share) +
      machine.moving_seconds(work.written_bytes * in_parts(work.y_row_bytes), costs.write_share) +
      machine.moving_seconds(work.again_bytes, costs.again_share);
  // A block waits for x before it multiplies: others move theirs meanwhile, where there are some.
  const double others = std::min(1.0, (at_once - 1) / 2);
  const double overlap = 1 + (costs.overlap - 1) * others;
  const double seconds =
      kernel_seconds(summed({clocks / machine.clock_hertz, moving}, overlap), device, 0) +
      costs.start;
  return seconds * (work.depthwise ? costs.depthwise : 1);
}

}  // namespace plumb::cuda
