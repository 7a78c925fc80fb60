// Costs of the kernels in wide_weights/ beside those that they have from wide/, fitted to the suite
// `wide` on one H100, TF32 in NHWC.
#pragma once

namespace plumb::cuda {

struct WideWeightsTable {
  double mma_sync_share = 0.6;  ///< fixed: of the rate of TF32, that mma.sync reaches
  double slower = 1.35;         ///< fixed: what wgmma is measured at, over what the parts add up to
  double mma_sync_slower = 1.7;  ///< fixed: and mma.sync
};

}  // namespace plumb::cuda
