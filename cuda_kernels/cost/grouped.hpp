// A model of the kernel in grouped/: what a block moves, issues and multiplies for a tile.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// How a problem is cut. A work is what a warp sums at once.
struct GroupedWork {
  bool depthwise = false;                            ///< groups are of one channel and filter
  double tiles = 1, blocks = 1, tiles_of_block = 1;  ///< of all strips of filters
  double resident = 1;                               ///< blocks of a multiprocessor
  double warps = 1;                                  ///< of a block
  double works = 1, longest = 1;  ///< of a tile: of all warps in the mean, of the busiest one
  double pixels = 1;              ///< of a tile's outputs
  double steps = 1, loads = 1;    ///< of a work: loads are of fragments of x
  double beside = 1, bundles = 1, m16 = 1;    ///< GroupedShape
  double units = 1;                           ///< of x under a tile
  double x_row_bytes = 16, y_row_bytes = 16;  ///< that a tile moves and lie side by side
  bool by_units = true;                       ///< x moves in units, or else in runs of pixels
  double x_run = 1, conflicts = 1;            ///< conflicts: times that writing a run meets a bank
  bool by_filters = true;                     ///< y likewise
  double size = 2;                            ///< bytes of an element; of 4 x is rounded
  double y_run = 1;
  double filter_bytes = 0;                 ///< that a block loads
  double read_bytes = 0, again_bytes = 0;  ///< of x, once; of its halo
  double written_bytes = 0;
};

double grouped_seconds(const DeviceInfo& device, const GroupedWork& work);

}  // namespace plumb::cuda
