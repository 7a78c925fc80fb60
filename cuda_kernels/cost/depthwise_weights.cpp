#include "cuda_kernels/cost/depthwise_weights.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"
#include "cuda_kernels/cost/weights.hpp"

namespace plumb::cuda {

double depthwise_weights_clocks(const DepthwiseWeightsWork& work,
                                const DepthwiseWeightsShares& shares) {
  const DepthwiseWeightsTable& costs = cost_tables().depthwise_weights;
  const double words = work.real_bytes / 4.0;
  const double of_read = costs.of_read + (work.widens ? costs.of_widening : 0);
  // Four warps issue in a clock; L1 and shared memory answer 128 bytes in one.
  const double issued = (work.fmas + work.reads * of_read + work.vectors + costs.of_step) / 4;
  const double step = costs.reached * std::max({issued, work.fmas * words / 4,
                                                work.reads * words + work.vectors * 4});
  const double copying = work.copied * (costs.of_copy + (work.widens ? 2 : 0)) / 128;
  const double unit = work.warps * (work.steps * step + costs.of_unit / 4) + copying;
  const double of_block = std::ceil(shares.units / shares.parts / shares.members);
  const double all_blocks = shares.blocks * shares.parts;
  const double slots = weights_units * shares.resident;
  const double waves = std::ceil(all_blocks / slots);
  const double at_once = std::min(shares.resident, std::ceil(all_blocks / weights_units));
  const double few = std::max(1.0, costs.enough_warps / (4 * at_once));
  const double computing =
      of_block * (at_once * few * unit + (work.copied > 0 ? costs.of_barriers : 0)) + costs.ends;
  const double moving = of_block * shares.members * at_once * work.bytes / costs.bytes_clock;
  const double adding =
      2 * shares.parts * shares.weights_bytes / (costs.bytes_clock * weights_units);
  return waves * std::max(computing, moving) + adding;
}

}  // namespace plumb::cuda
