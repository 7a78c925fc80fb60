#include "cuda_kernels/cost/wide.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double repacking_seconds(const DeviceInfo& device, const WideRepacking& work) {
  if (work.kernels == 0) return 0;
  const WideTable& costs = cost_tables().wide;
  const Machine machine(device);
  if (work.plane_vector > 0) {
    constexpr int short_vector = 4;
    const double share =
        work.plane_vector > short_vector ? costs.planes_share : costs.short_planes_share;
    return machine.moving_seconds(work.bytes, share) + costs.next_kernel;
  }
  // Lanes move elements one by one, of whatever size.
  const double of_element = work.kernels > 1 ? costs.of_split_element
                            : work.folds     ? costs.of_folded_element
                                             : costs.of_repacked_element;
  return work.elements * of_element / (machine.units * machine.clock_hertz) +
         machine.moving_seconds(work.bytes, costs.repacking_share) +
         work.kernels * costs.next_kernel + (work.folds ? costs.folding : 0);
}

double wide_seconds(const DeviceInfo& device, const WideWork& work) {
  const WideTable& costs = cost_tables().wide;
  const Machine machine(device);
  constexpr double step_terms = 64, row_bytes = 128;
  const double products =
      work.step_products * step_terms * work.m * work.n / costs.products_per_clock;
  const double loaded = row_bytes * (work.m + work.filter_planes * work.n);
  const double step = std::max(products, loaded / costs.l2_bytes_per_clock) + costs.of_step;
  const double stored = work.stores_boxes      ? costs.of_box
                        : work.writes_elements ? costs.of_element
                        : work.writes_planes   ? costs.of_plane
                                               : costs.of_row;
  // Filters that fill up a tile are not stored, but for those in a fragment of eight.
  constexpr int min_filters = 8;
  const double outputs = 1.0 * work.m * std::min(work.n, std::max(work.filters, min_filters));
  // Operands that were split in memory were scaled: who stores outputs scales them back.
  const double scaling = work.repacking.kernels > 1 ? costs.of_scale * outputs : 0;
  const double tile = costs.of_tile + stored * outputs + (work.splits > 1 ? 0 : scaling);
  // Tiles are of one length, so that the last wave takes as long as any.
  const bool clusters = work.cluster > 1;
  const double waves =
      clusters ? work.whole / work.cluster_blocks : std::ceil(work.works / machine.units);
  double clocks = waves * (work.steps * step + tile);
  if (clusters) {
    constexpr double sum_bytes = 4;
    const double sent = sum_bytes * work.m * work.n * (work.cluster - 1) / work.cluster;
    clocks += std::ceil(work.steps / work.cluster) * step + tile + costs.of_exchange +
              sent / costs.cluster_bytes_per_clock;
  }
  const double tiles = clocks / machine.clock_hertz;
  const double moving = machine.moving_seconds(work.read_bytes, costs.read_share) +
                        machine.moving_seconds(work.written_bytes, costs.write_share);
  const double slower = costs.slower * (work.depthwise ? costs.depthwise : 1);
  double all = kernel_seconds(slower * (tiles + moving), device, 0) + costs.start;
  if (work.splits > 1)
    all +=
        machine.moving_seconds(2 * work.sums_bytes, costs.sums_share) + costs.next_kernel +
        costs.slower * scaling * work.works / work.splits / (machine.units * machine.clock_hertz);
  return costs.of_layers * all + repacking_seconds(device, work.repacking);
}

double wide_across_seconds(const DeviceInfo& device, double works) {
  const WideTable& costs = cost_tables().wide;
  const Machine machine(device);
  return costs.slower * std::ceil(works / machine.units) * costs.of_across_tile /
         machine.clock_hertz;
}

}  // namespace plumb::cuda
