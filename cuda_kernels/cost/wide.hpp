// A model of the kernel in wide/: tiles of a product on tensor cores, loaded from L2.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// The kernels that x goes through first.
struct WideRepacking {
  int kernels = 0;       ///< 2 where operands are split in memory, 1 or none
  bool folds = false;    ///< taps become channels
  int plane_vector = 0;  ///< bytes of a channel's pixels that are moved at once; 0: elements
  double elements = 0;   ///< of the tiles that a kernel moves, those that fill them up too
  double bytes = 0;      ///< which they read and write
};

/// How a problem is cut.
struct WideWork {
  int m = 0, n = 0;  ///< of a tile: pixels and filters
  double works = 0;  ///< tiles of all groups and splits
  double steps = 0;  ///< of 128 bytes of channels, of one work; of all products of a term
  double splits = 1;
  double cluster = 1;            ///< blocks that share the steps of each tile behind the whole ones
  double cluster_blocks = 0;     ///< of clusters at once
  double whole = 0;              ///< beside clusters: tiles of a block by itself
  double step_products = 1;      ///< that a step forms of each of its terms
  int filter_planes = 1;         ///< that it loads
  int filters = 1;               ///< of a group, which may be fewer than a tile's
  bool stores_boxes = false;     ///< the copy engine stores outputs
  bool writes_elements = false;  ///< outputs are stored one at a time
  bool depthwise = false;        ///< groups of one channel, many in a tile
  double read_bytes = 0, written_bytes = 0;  ///< of x and filters, and of y
  bool writes_planes = false;                ///< filters do not lie side by side in y
  double sums_bytes = 0;                     ///< of the splits, written and read once
  WideRepacking repacking{};
};

/// Returns the time of the kernels that x goes through first.
double repacking_seconds(const DeviceInfo& device, const WideRepacking& work);

/// Returns the time of the kernel, of those that repack x, and of the one that sums the splits. A
/// step of any class takes as long: TF32 has half the rate, and half the channels in its 128 bytes.
double wide_seconds(const DeviceInfo& device, const WideWork& work);

/// Returns what so many tiles take besides where planes of x of two bytes are operands: beside
/// other kernels, not beside the same one that reads them repacked, which is slower by what is
/// counted.
double wide_across_seconds(const DeviceInfo& device, double works);

}  // namespace plumb::cuda
