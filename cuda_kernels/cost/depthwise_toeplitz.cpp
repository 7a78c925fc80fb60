#include "cuda_kernels/cost/depthwise_toeplitz.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double depthwise_toeplitz_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                  const DepthwiseToeplitzWork& work) {
  const DepthwiseToeplitzTable& costs = cost_tables().depthwise_toeplitz;
  const Machine machine(device);
  // Instructions of a warp. What threads do by themselves is shared by 32.
  const double by_threads =
      costs.zeros * work.zero_vectors + costs.row * work.rows + costs.tap * work.taps +
      costs.table * work.table + costs.copied_vector * work.loaded.vectors +
      costs.copied_element * work.loaded.elements + costs.copied_octet * work.loaded.octets +
      costs.written_octet * work.stored.octets + costs.copied_pixels * work.loaded.pixels +
      costs.written_vector * work.stored.vectors + costs.written_element * work.stored.elements +
      costs.written_pixels * work.stored.pixels + costs.of_output * work.pairs;
  const double instructions = by_threads / 32 + costs.of_tap_row * work.tap_rows +
                              costs.of_step * (work.steps + work.half_steps) + work.loads +
                              work.products + work.half_products;
  const double multiplying =
      costs.product * work.products + costs.half_product * work.half_products;
  // A half is 16 rows of 16 bytes: two wavefronts. Pairs of sums and what is copied are one for 32.
  const double waves =
      2 * work.halves + 2 * work.steps + work.half_steps +
      (work.pairs + 4 * work.zero_vectors + 4 * (work.loaded.vectors + work.stored.vectors) +
       8 * (work.loaded.pixels + work.stored.pixels + work.loaded.octets + work.stored.octets) +
       work.loaded.elements + work.stored.elements) /
          32;
  // A warp alone has one of four pipes.
  const double of_step = costs.step_wait + 4 * costs.product * work.products_of_step;
  const double latency = costs.begin + of_step * work.longest_steps + costs.end;
  // Few warps leave slots of each scheduler empty while they wait; and a block's latency is not
  // hidden by the work of others.
  const auto clocks_of = [&](double blocks) {
    const double waiting = 1 + costs.few_warps / (blocks * work.warps);
    const double issue = instructions / (4 * costs.issued) * waiting;
    return latency + blocks * (std::max({issue, multiplying, waves}) + costs.of_block);
  };
  const double at_once = work.resident * machine.units;
  const double turns = std::floor(work.blocks / at_once);
  const double left = std::ceil((work.blocks - turns * at_once) / machine.units);
  const double clocks = turns * clocks_of(work.resident) + (left > 0 ? clocks_of(left) : 0);
  const double moving =
      machine.moving_seconds(problem.bytes(), costs.moved) +
      machine.moving_seconds(work.read_again_bytes, costs.again) +
      costs.half_sectors * machine.moving_seconds(work.half_sector_bytes, costs.moved);
  // A block waits for its input before it sums: others move theirs meanwhile, where there are some.
  const double others = std::min(1.0, (work.resident - 1) / 2);
  const double overlap = 1 + (costs.overlap - 1) * others;
  return kernel_seconds(summed({clocks / machine.clock_hertz, moving}, overlap), device, 0);
}

}  // namespace plumb::cuda
