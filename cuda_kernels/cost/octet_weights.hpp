// A model of the kernel in octet_weights/: products by wgmma from shared memory, which units are
// copied to and made into halves in. How units are shared out is as in few_weights.hpp.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// What a block does with one unit of positions.
struct OctetWeightsWork {
  int filter_octets = 1;
  bool joint = false;                        ///< both halves of dy are columns of one instruction
  double tiles = 1, tiles_of_warpgroup = 1;  ///< of 64 rows
  double steps = 1;                          ///< of 16 positions
  double x_elements = 0, dy_elements = 0;    ///< of the stage
  double x_vector = 1, dy_vector = 1;        ///< copied at once
  int blocks_at_once = 1;                    ///< on a multiprocessor
};

/// Returns the clocks of a multiprocessor that a unit takes, where it is shared.
double octet_weights_unit_clocks(const OctetWeightsWork& work);
/// Returns the time of a problem that takes so many clocks on `few_weights_units` multiprocessors.
double octet_weights_seconds(const ConvProblem& problem, const DeviceInfo& device, double clocks);

}  // namespace plumb::cuda
