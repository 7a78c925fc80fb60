// Costs of the kernels in wide_weights/ beside those that they have from wide/: the means of what
// 18 layers of `wide` in FP16 and 8 in TF32 took on one H200, in NHWC, whose memory is the faster
// one.
#pragma once

namespace plumb::cuda {

struct WideWeightsTable {
  double mma_sync_share = 0.6;  ///< fixed: of the rate of TF32, that mma.sync reaches
  double slower = 1.35;         ///< fixed: what wgmma is measured at, over what the parts add up to
  double repacking_share = 0.7;  ///< fixed: of memory's nominal rate, for repacking x and dy
  double mma_sync_slower = 1.2;  ///< fixed: and mma.sync
  double few = 1.4;  ///< free: of 16 channels or fewer in three products, over others; 26 problems
};

}  // namespace plumb::cuda
