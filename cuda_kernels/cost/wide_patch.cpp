#include "cuda_kernels/cost/wide_patch.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double wide_patch_seconds(const DeviceInfo& device, const WidePatchWork& work) {
  const WideTable& wide = cost_tables().wide;
  const WidePatchTable& costs = cost_tables().wide_patch;
  const Machine machine(device);
  constexpr double filters = 64;
  const double products = work.terms * filters * work.columns / wide.products_per_clock;
  const double loaded = (work.filter_bytes + work.patch_bytes) / costs.l2_bytes_per_clock;
  // Of tiles with as many products those that load less are the faster.
  const double main =
      work.steps * (std::pow(std::pow(products, 4) + std::pow(loaded, 4), 0.25) + costs.of_step);
  const double of_output = work.writes == WidePatchWrites::filters ? costs.of_output
                           : work.writes == WidePatchWrites::runs  ? costs.of_run_output
                                                                   : costs.of_plane_output;
  const double stored = costs.of_tile + work.outputs * of_output;
  // A warpgroup stores while the other multiplies: two works take the longer of both products and
  // of one's products and outputs. The last one's outputs come behind all products.
  const double each = std::max(main, (main + stored) / 2);
  const double works = std::ceil(work.works / machine.units);
  const double tiles = (works * each + stored) / machine.clock_hertz;
  const double moving = machine.moving_seconds(work.read_bytes, costs.read_share) +
                        machine.moving_seconds(work.written_bytes, costs.write_share);
  return kernel_seconds(costs.slower * (tiles + moving), device, 0) + wide.start +
         repacking_seconds(device, work.repacking);
}

}  // namespace plumb::cuda
