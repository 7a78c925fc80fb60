// A model of the kernel in few_weights/: steps of mma.sync from shared memory, which units are
// copied to and made into halves in.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// The machine that problems are cut for: sums must not depend on the device.
inline constexpr double few_weights_units = 132;

/// What a block does with one unit of positions.
struct FewWeightsWork {
  int tile_m = 1, tile_n = 1;  ///< of a warp, in fragments
  int products = 1, halves = 1;
  bool scales = false;
  int stored_bytes = 4;
  double warps = 1, steps = 1;             ///< of a block, and of each of its warps
  double x_elements = 0, dy_elements = 0;  ///< of the stage
  double x_vector = 1, dy_vector = 1;      ///< copied at once
  int blocks_at_once = 1;                  ///< on a multiprocessor
};

/// How all units are shared out.
struct FewWeightsShares {
  double blocks = 1;         ///< that cut dw
  double units = 1;          ///< of each of them
  double parts = 1;          ///< that the units are cut into
  double weights_bytes = 0;  ///< of the sums of a part
  int blocks_at_once = 1;
};

/// Returns the clocks of a multiprocessor that a unit takes, where it is shared.
double few_weights_unit_clocks(const FewWeightsWork& work);
/// Returns the clocks from the first block to the last, and those of adding up the parts.
double few_weights_clocks(double unit_clocks, const FewWeightsShares& shares);
/// Returns the time of a problem that takes so many clocks on `few_weights_units` multiprocessors.
double few_weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks);

}  // namespace plumb::cuda
