// A model of the kernel for few terms in pointwise/: warps of a block gather x to registers, once
// for all filters of the block, and outputs of a chunk of filters leave through shared memory.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// How a problem is cut. A step of a block is a tile of pixels, by its chunks of filters in turn.
struct TapsWork {
  double pixels = 0;
  int tile_pixels = 512;  ///< of a block
  int warps = 8;
  int resident = 2;  ///< blocks that share a multiprocessor
  int steps = 1, step_terms = 16;
  int element_bytes = 2;
  int products = 1;        ///< of a term
  int chunk_filters = 16;  ///< that are multiplied at a time
  int group_chunks = 1;    ///< of a block
  int groups = 1;
  int blocks = 1;  ///< of a group
  bool padded = false, writes_elements = false;
  double read_bytes = 0, written_bytes = 0;  ///< of x and y
  double group_bytes = 0;                    ///< of a block's filters
};

double taps_seconds(const DeviceInfo& device, const TapsWork& work);

}  // namespace plumb::cuda
