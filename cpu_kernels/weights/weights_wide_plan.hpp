// Backward weights with vectors over channels is cut into blocks of dw, and its sum into parts of
// whole bands. The order of the sum depends on the problem alone; blocks may depend on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/weights/weights_plan.hpp"

namespace plumb {

/// What is known beside the cut of a WeightsPlan, of which `padded` counts channels here, and
/// `flat` says whether a band's rows of an image are one run.
struct WeightsWidePlan final : WeightsPlan {
  bool by_taps;             ///< whether planes are made for each filter column, without a halo
  bool by_rows;             ///< whether rows of x are turned where they lie, all of their columns
  bool turns_dy;            ///< whether dy is packed because its filters are neighbours
  bool images_in_line;      ///< whether a band's images are one run, too
  std::int64_t x_q;         ///< from a column's vectors of x to the next's, in elements
  std::int64_t x_step;      ///< from a position's
  std::int64_t x_tile;      ///< from a tile of channels to the next
  std::int64_t of_channel;  ///< elements of an image's planes of one tap along the depth
  std::int64_t chunk;       ///< channels that are copied to planes together, before they are turned
  std::size_t chunk_bytes;  ///< of those planes, before the turned ones in a thread's planes_bytes
};

/// Returns how a problem of backward weights is summed with vectors over channels.
WeightsSum weights_wide_sum(const ConvProblem& problem, std::int64_t real_bytes);

/// Returns the most additions on the way of a product to its sum in dw.
double weights_wide_chain(const ConvProblem& problem, std::int64_t real_bytes);

template <class Real>
WeightsWidePlan plan_channels(const ConvProblem& problem, const WeightsKernels<Real>& kernels,
                              const DeviceInfo& device);

/// Returns the work in products.
template <class Real>
double weights_wide_work(const ConvProblem& problem, const WeightsKernels<Real>& kernels,
                         const WeightsWidePlan& plan);

/// Says whether planes of images whose rows are as long as the filter reaches are turned where they
/// lie in x, without a copy.
template <class Real>
bool turns_in_x(const ConvProblem& problem);

}  // namespace plumb
