// A model of the kernel in pointwise/: warps that read x to registers, multiply it by filters from
// shared memory and write y, each at its own pace.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// How a problem is cut. A step of a warp is a tile of pixels by a chunk of filters.
struct PointwiseWork {
  double pixels = 0;
  int tile_pixels = 64;
  int unit = 32;  ///< channels
  int element_bytes = 2;
  int units = 1;    ///< of the channels
  int batches = 1;  ///< in which a warp loads them
  int n8_tiles = 1;
  int products = 1;  ///< of a term
  int planes = 1;    ///< of filters
  int warps = 12;    ///< of a block
  int warps_n = 1;   ///< of them with the same pixels
  int group_chunks = 1;
  int groups = 1;
  int blocks = 1;      ///< of a group
  bool holds = false;  ///< all channels of a tile are held through all chunks
  bool reads_elements = false, writes_elements = false;
  double read_bytes = 0, written_bytes = 0;  ///< of x and y
  double group_bytes = 0;                    ///< of a block's filters
};

double pointwise_seconds(const DeviceInfo& device, const PointwiseWork& work);

}  // namespace plumb::cuda
