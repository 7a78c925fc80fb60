// A model of the kernel in depthwise_toeplitz/: what a block moves, issues and multiplies.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// What moves between memory and shared memory, and how.
struct DepthwiseToeplitzMoved {
  double vectors = 0, octets = 0, elements = 0, pixels = 0;  ///< items of each kind
};

/// What one block does, and how many there are.
struct DepthwiseToeplitzWork {
  double blocks = 1, resident = 1;  ///< resident: on a multiprocessor
  double warps = 1;                 ///< of a block
  double zero_vectors = 0;          ///< of 16 bytes
  double rows = 0, taps = 0;        ///< whose places are found, that are copied
  double table = 0;                 ///< elements of planes whose places are found
  DepthwiseToeplitzMoved loaded, stored;
  double tap_rows = 0;               ///< a warp's turns of all warps, each over a row of taps
  double steps = 0, half_steps = 0;  ///< of 16 columns and of 8, in all turns
  double products = 0, half_products = 0;
  double loads = 0, halves = 0;  ///< of fragments, and halves that they load
  double pairs = 0;              ///< of sums, in all lanes
  double longest_steps = 0;      ///< that one warp makes in turn
  double products_of_step = 1;
  double read_again_bytes = 0;   ///< of all blocks
  double half_sector_bytes = 0;  ///< of all blocks: what moves by halves of a sector
};

double depthwise_toeplitz_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                  const DepthwiseToeplitzWork& work);

}  // namespace plumb::cuda
