#include "cuda_kernels/cost/wide.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double wide_seconds(const ConvProblem& problem, const DeviceInfo& device, const WideWork& work) {
  const WideTable& costs = cost_tables().wide;
  const Machine machine(device);
  constexpr double step_terms = 64, row_bytes = 128;
  const double products = step_terms * work.m * work.n / costs.products_per_clock;
  const double loaded = row_bytes * (work.m + work.n);
  const double step = std::max(products, loaded / costs.l2_bytes_per_clock) + costs.of_step;
  const double tile = costs.of_tile + costs.of_row * work.m * work.n;
  // Tiles are of one length, so that the last wave takes as long as any.
  const double waves = std::ceil(work.works / machine.units);
  const double seconds = waves * (work.steps * step + tile) / machine.clock_hertz;
  const double moving = moving_seconds(problem, device, 4);
  double all = kernel_seconds(costs.slower * std::max(seconds, moving), device, 0) + costs.start;
  if (work.splits > 1)
    all += kernel_seconds(2 * machine.moving_seconds(work.sums_bytes, costs.sums_share), device, 0);
  for (int i = 0; i < work.repackings; ++i)
    all += kernel_seconds(
        machine.moving_seconds(work.repacked_bytes / work.repackings, costs.repacking_share),
        device, 0);
  return all;
}

}  // namespace plumb::cuda
