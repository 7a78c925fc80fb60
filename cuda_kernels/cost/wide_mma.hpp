// A model of the kernel in wide_mma/: tiles of a product by mma.sync, loaded from L2 by cp.async.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/cost/wide.hpp"

namespace plumb::cuda {

/// How a problem is cut.
struct WideMmaWork {
  bool of_doubles = false;
  int m = 0, n = 0;  ///< of a tile: pixels and filters
  int element_bytes = 2;
  double works = 0;                          ///< tiles of all groups and splits
  double steps = 0;                          ///< of 128 bytes of channels, of one work
  double sums_bytes = 0;                     ///< of the splits, written and read once
  double shared_bytes = 0;                   ///< of a block
  int blocks = 1;                            ///< of a multiprocessor, where shared memory suffices
  bool writes_elements = false;              ///< outputs are stored one at a time
  double read_bytes = 0, written_bytes = 0;  ///< of x and filters, and of y
  bool writes_planes = false;                ///< filters do not lie side by side in y
  WideRepacking repacking{};
};

/// Returns the time of the kernel, of the one that repacks x, and of the one that sums the splits.
double wide_mma_seconds(const DeviceInfo& device, const WideMmaWork& work);

}  // namespace plumb::cuda
