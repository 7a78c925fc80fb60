#include "cuda_kernels/cost/weights.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double unit_clocks(const WeightsWork& work) {
  const WeightsTable& costs = cost_tables().weights;
  const double words = work.real_bytes / 4.0;
  const double fmas = work.filters * work.lines * work.taps * work.positions;
  const double x_loads = work.lines * (work.taps + work.positions - 1);
  const double dy_loads = work.filters * words;  // of 16 bytes
  const double issued = (fmas + x_loads + dy_loads + costs.of_step) / 4;
  // A wavefront has 128 bytes; threads of one step read the same gradients.
  const double steps_of_warp = std::ceil(32.0 / work.tiles_l);
  const double waves =
      x_loads * words * costs.conflicts + dy_loads * std::max(1.0, steps_of_warp / 8);
  const double step = costs.reached * std::max({fmas * words / 4, issued, waves});
  const double copying =
      (work.x_elements * costs.x_element + work.dy_elements / work.dy_vector * costs.dy_vector) /
      128;
  const double few = std::max(1.0, costs.enough_warps / (work.warps * work.blocks_at_once));
  const double moving = (work.x_elements + work.dy_elements) * work.real_bytes / costs.bytes_clock;
  return std::max(few * work.warps * work.steps * step + copying, moving) +
         costs.of_unit / work.blocks_at_once;
}

double weights_clocks(const WeightsWork& work, double unit_clocks, const WeightsShares& shares) {
  const WeightsTable& costs = cost_tables().weights;
  const double waves = std::ceil(shares.parts * shares.blocks / shares.slots);
  // Of blocks that share a multiprocessor each takes as long as all of them.
  const double block =
      std::ceil(shares.units / shares.parts) * unit_clocks * work.blocks_at_once + costs.ends;
  const double adding =
      2 * shares.parts * shares.weights_bytes / (costs.bytes_clock * weights_units);
  return waves * block + adding;
}

double weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks,
                       int real_bytes, double single_elements) {
  const WeightsTable& costs = cost_tables().weights;
  const Machine machine(device);
  // The order of the sums is of the clocks that were counted; this is of the estimate alone.
  clocks =
      std::max(costs.measured * clocks, costs.single_element * single_elements / weights_units);
  double seconds = clocks * weights_units / (machine.units * machine.clock_hertz);
  // The count of clocks is for doubles at half the rate of floats.
  if (real_bytes == 8 && machine.fp64_share > 0) seconds *= 0.5 / machine.fp64_share;
  seconds = std::max(seconds, machine.moving_seconds(problem.bytes()));
  return kernel_seconds(seconds, device, 0) + kernel_seconds(0, device, 0);
}

}  // namespace plumb::cuda
