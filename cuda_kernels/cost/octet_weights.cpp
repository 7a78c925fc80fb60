#include "cuda_kernels/cost/octet_weights.hpp"

#include <algorithm>

#include "cuda_kernels/cost/few_weights.hpp"
#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double octet_weights_unit_clocks(const OctetWeightsWork& work) {
  const FewWeightsTable& shared = cost_tables().few_weights;
  const OctetWeightsTable& costs = cost_tables().octet_weights;
  // An instruction reads both its operands: 64 rows and its columns, of 16 terms.
  const auto instruction = [&](double columns) {
    constexpr double rows = 64, terms = 16, wavefront_bytes = 128;
    return std::max(rows * columns * terms / costs.fma_clock,
                    2 * terms * (rows + columns) / wavefront_bytes);
  };
  const double columns = 8.0 * work.filter_octets, passes = work.joint ? 1 : 2;
  const double products =
      work.joint ? instruction(2 * columns) + instruction(columns) : 3 * instruction(columns);
  const double multiplying = work.steps * work.tiles * products;
  const double elements = work.x_elements + work.dy_elements;
  const double issued = (work.x_elements / work.x_vector * shared.x_vector +
                         work.dy_elements / work.dy_vector * shared.dy_vector +
                         elements * (costs.extremes + costs.octet / 8)) /
                        128;
  const double moving = 4 * elements / costs.bytes_clock;
  const double waits =
      (passes * work.tiles_of_warpgroup * costs.of_pass + shared.of_unit) / work.blocks_at_once;
  // Two blocks make halves and multiply at the same time, one in turn.
  const double longest = std::max({multiplying, issued, moving});
  const double in_turn = multiplying + costs.few_warps * issued;
  return waits + (work.blocks_at_once == 1
                      ? std::max(in_turn, moving)
                      : std::max(longest, shared.hidden * (multiplying + issued)));
}

double octet_weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks) {
  const Machine machine(device);
  const double seconds = cost_tables().octet_weights.measured * clocks * few_weights_units /
                         (machine.units * machine.clock_hertz);
  return kernel_seconds(std::max(seconds, machine.moving_seconds(problem.bytes())), device, 0) +
         kernel_seconds(0, device, 0);
}

}  // namespace plumb::cuda
