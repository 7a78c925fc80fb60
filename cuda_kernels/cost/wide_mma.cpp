#include "cuda_kernels/cost/wide_mma.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

/// FMAs of a multiprocessor in a clock.
double products_per_clock(const WideMmaTable& costs, const DeviceInfo& device,
                          const WideMmaWork& work) {
  const int major = device.compute_major, minor = device.compute_minor;
  if (work.of_doubles) {
    const double units = fp32_lanes_of(major, minor) * Machine(device).fp64_share;
    // Chips that are not for computing have tensor cores that take doubles no faster.
    const bool for_computing = Machine(device).fp64_share == 1.0 / 2;
    return costs.share * units * (for_computing ? costs.doubles : 1);
  }
  const bool is_80 = major == 8 && minor == 0;
  const double of_halves = major >= 9
                               ? costs.products_90
                               : costs.share * (is_80 ? costs.products_80 : costs.products_86);
  return of_halves * 2 / work.element_bytes;
}

}  // namespace

double wide_mma_seconds(const DeviceInfo& device, const WideMmaWork& work) {
  const WideMmaTable& costs = cost_tables().wide_mma;
  const Machine machine(device);
  constexpr double row_bytes = 128;
  const double products = static_cast<double>(work.m) * work.n * row_bytes / work.element_bytes /
                          products_per_clock(costs, device, work);
  const double loads = (work.m + work.n) * row_bytes / costs.l2_bytes_per_clock;
  // Outputs are written by wide's code.
  const WideTable& wide = cost_tables().wide;
  const double stored = work.writes_elements ? wide.of_element
                        : work.writes_planes ? wide.of_plane
                                             : costs.of_output;
  // Blocks of a multiprocessor take turns: what one waits for is hidden by the others.
  const double room = std::min(costs.shared_bytes, static_cast<double>(device.shared_memory_bytes));
  const double at_once =
      std::clamp(std::floor(room / work.shared_bytes), 1.0, static_cast<double>(work.blocks));
  const double step = std::max(max_of({products, loads}), costs.of_step / at_once);
  const double tile = work.steps * step + costs.of_tile / at_once + stored * work.m * work.n;
  // Tiles are of one length, so that the busiest multiprocessor has all of its own.
  const double tiles = std::ceil(work.works / machine.units) * tile / machine.clock_hertz;
  const double moving = machine.moving_seconds(work.read_bytes, costs.read_share) +
                        machine.moving_seconds(work.written_bytes, costs.write_share);
  double all =
      wide.of_layers * kernel_seconds(costs.slower * (tiles + moving), device, 0) + costs.start;
  if (work.sums_bytes > 0)
    all += machine.moving_seconds(2 * work.sums_bytes, costs.sums_share) + wide.next_kernel;
  return all + repacking_seconds(device, work.repacking);
}

}  // namespace plumb::cuda
