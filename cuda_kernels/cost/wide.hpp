// A model of the kernel in wide/: tiles of a product on tensor cores, loaded from L2.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// How a problem is cut.
struct WideWork {
  int m = 0, n = 0, cluster = 1;  ///< of a tile: pixels, filters, blocks that share its filters
  double works = 0;               ///< tiles of clusters, of all splits
  double steps = 0;               ///< of 64 channels, of one work
  double splits = 1;
  double sums_bytes = 0;  ///< of the splits, written and read once
};

/// Returns the time of the kernel, and of the one that sums the splits.
double wide_seconds(const ConvProblem& problem, const DeviceInfo& device, const WideWork& work);

}  // namespace plumb::cuda
