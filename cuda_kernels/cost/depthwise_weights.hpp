// A model of the kernels in depthwise_weights/: steps of FMAs, from L1 or from shared memory, which
// boxes are copied to.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// What the threads of a block do with one unit.
struct DepthwiseWeightsWork {
  int real_bytes = 4;
  bool widens = false;  ///< elements are stored as fewer bytes than sums have
  double fmas = 0;      ///< of a step of a thread
  double reads = 0;     ///< through L1, in elements, of a step
  double vectors = 0;   ///< of 16 bytes from shared memory, of a step
  double steps = 0;     ///< of a warp, of all that one unit of its block takes
  double warps = 4;     ///< of a block, that do so many steps each
  double copied = 0;    ///< elements that a block copies to shared memory for the unit
  double bytes = 0;     ///< of memory, of the unit
};

struct DepthwiseWeightsShares {
  double blocks = 1;         ///< that cut dw
  double units = 1;          ///< of each of them
  double parts = 1;          ///< that the units are cut into
  double members = 1;        ///< threads or warps of a block that take a unit each
  double resident = 4;       ///< blocks that a multiprocessor holds at once
  double weights_bytes = 0;  ///< of the sums of a part
};

/// Returns the clocks of a multiprocessor from the first block to the last, and those of adding up
/// the parts, on `weights_units` multiprocessors (cost/weights.hpp).
double depthwise_weights_clocks(const DepthwiseWeightsWork& work,
                                const DepthwiseWeightsShares& shares);

}  // namespace plumb::cuda
