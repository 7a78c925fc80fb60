// A model of the kernel in weights/: steps of FMAs from shared memory, which units are copied to.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// The machine that problems are cut for: sums must not depend on the device.
inline constexpr double weights_units = 132;

/// What a block does with one unit of positions.
struct WeightsWork {
  int real_bytes = 4;
  int filters = 1, lines = 1, taps = 1, positions = 4;  ///< of a step
  int tiles_l = 1;              ///< neighbouring threads that read the same gradients
  double warps = 1, steps = 1;  ///< of a block, and of each of its threads
  double x_elements = 0, dy_elements = 0, dy_vector = 1;  ///< copied for it
  int blocks_at_once = 1;                                 ///< on a multiprocessor
};

/// How all units are shared out.
struct WeightsShares {
  double blocks = 1;         ///< that cut dw
  double units = 1;          ///< of each of them
  double parts = 1;          ///< that the units are cut into
  double weights_bytes = 0;  ///< of the sums of a part
  double slots = 1;          ///< blocks that the device holds at once
};

/// Returns the clocks of a multiprocessor that a unit takes, where it is shared by
/// `blocks_at_once`.
double unit_clocks(const WeightsWork& work);
/// Returns the clocks from the first block to the last, and those of adding up the parts.
double weights_clocks(const WeightsWork& work, double unit_clocks, const WeightsShares& shares);
/// Returns the time of a problem that takes so many clocks on `weights_units` multiprocessors, and
/// copies so many elements one by one.
double weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks,
                       int real_bytes, double single_elements = 0);

}  // namespace plumb::cuda
