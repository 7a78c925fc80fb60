// A model of the kernel in wide_weights/: tiles of a product on tensor cores, loaded from L2, and
// sums of the splits.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// The machine that problems are cut for: sums must not depend on the device.
inline constexpr double wide_weights_units = 132;

/// How a problem is cut.
struct WideWeightsCounts {
  int m = 0, n = 0;     ///< of a tile: filters, and channels under taps
  int loaded_rows = 0;  ///< of a step, for filters and columns that are there
  double works = 0;     ///< tiles of all groups and splits
  double steps = 0;     ///< of 128 bytes of pixels, of one work; of all products of a term
  int warp_rows = 0, warp_columns = 0;  ///< of a tile by mma.sync of TF32; otherwise 0
  int step_parts = 1;                   ///< of a step's pixels that warps share out
  int step_products = 1;                ///< that a step forms of each of its terms
  int stored_bytes = 4;                 ///< of each sum of a tile, to workspace or to dw
  double sums = 0;                      ///< of the splits, that a second kernel adds
  double weights = 0;                   ///< which it makes
};

/// What goes through memory beside the tiles' loads.
struct WideWeightsTraffic {
  double read_bytes = 0;      ///< of x and dy as the copy engine reads them
  double written_bytes = 0;   ///< of dw
  double repacked_bytes = 0;  ///< what kernels before read and write
  int other_kernels = 0;      ///< beside that of the products
  bool scaled_few = false;    ///< three products of few channels
};

/// Returns the clocks from the first tile to the last sum on `wide_weights_units` multiprocessors.
double wide_weights_clocks(const WideWeightsCounts& work);
/// Returns the clocks of what goes through memory and of other kernels' starts, of a machine of
/// that kind.
double wide_weights_moving_clocks(const WideWeightsTraffic& traffic);
/// Returns the time of all kernels of a problem that takes so many clocks.
double wide_weights_seconds(const DeviceInfo& device, double clocks,
                            const WideWeightsTraffic& traffic, bool by_mma_sync);

}  // namespace plumb::cuda
