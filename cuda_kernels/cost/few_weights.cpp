#include "cuda_kernels/cost/few_weights.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double few_weights_unit_clocks(const FewWeightsWork& work) {
  const FewWeightsTable& costs = cost_tables().few_weights;
  const double steps = work.warps * work.steps;
  const double fragments = work.tile_m * work.tile_n * work.products;
  const double products = steps * fragments * costs.product;
  // A wavefront has 128 bytes: a fragment of A is four, one of B two.
  const double wavefronts = steps * work.halves * (4 * work.tile_m + 2 * work.tile_n);
  const double loads = work.halves * (work.tile_m + 2 * work.tile_n);
  const double of_element =
      work.scales ? costs.scaled + (work.halves - 1) * costs.split : costs.as_stored;
  const double copying = work.x_elements / work.x_vector * costs.x_vector +
                         work.dy_elements / work.dy_vector * costs.dy_vector;
  const double writing = (1.5 * work.x_elements + work.dy_elements) * of_element;
  const double issued = steps * (fragments + loads + costs.of_step) / 4 + (copying + writing) / 128;
  const double waits = work.steps * (costs.waits + 4 * fragments) / work.blocks_at_once;
  const double moving =
      (work.x_elements + work.dy_elements) * work.stored_bytes / costs.bytes_clock;
  const double longest = std::max({products, wavefronts, issued, waits, moving});
  const double of_block = issued + std::max(products, wavefronts);
  return std::max(longest, costs.hidden * of_block) + costs.of_unit / work.blocks_at_once;
}

double few_weights_clocks(double unit_clocks, const FewWeightsShares& shares) {
  const FewWeightsTable& costs = cost_tables().few_weights;
  const double slots = few_weights_units * shares.blocks_at_once;
  const double waves = std::ceil(shares.parts * shares.blocks / slots);
  // Of blocks that share a multiprocessor each takes as long as all of them.
  const double block =
      std::ceil(shares.units / shares.parts) * unit_clocks * shares.blocks_at_once + costs.ends;
  const double adding =
      2 * shares.parts * shares.weights_bytes / (costs.bytes_clock * few_weights_units);
  return waves * block + adding;
}

double few_weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks) {
  const Machine machine(device);
  const double seconds = cost_tables().few_weights.measured * clocks * few_weights_units /
                         (machine.units * machine.clock_hertz);
  return kernel_seconds(std::max(seconds, machine.moving_seconds(problem.bytes())), device, 0) +
         kernel_seconds(0, device, 0);
}

}  // namespace plumb::cuda
