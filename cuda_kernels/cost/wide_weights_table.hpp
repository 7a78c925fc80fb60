// Costs of the kernels in wide_weights/ beside those that they have from wide/. `of_step` and
// `slower` are fitted to 90 times of 15 layers in FP16 NHWC on one H200, every tile but the small
// ones (docs/results/2026-11-29-h200-wide-rows.json), which estimates miss by 0.119 (the root mean
// square of logarithms); the others are the means of what 8 layers of `wide` in TF32 took.
#pragma once

namespace plumb::cuda {

struct WideWeightsTable {
  double mma_sync_share = 0.6;  ///< fixed: of the rate of TF32, that mma.sync reaches
  double of_step = 150;         ///< fixed: clocks beside a step's products by wgmma
  double slower = 1.17;         ///< fixed: what wgmma is measured at, over what the parts add up to
  double repacking_share = 0.7;  ///< fixed: of memory's nominal rate, for repacking x and dy
  double mma_sync_slower = 1.2;  ///< fixed: and mma.sync
  double few = 1.4;  ///< free: of 16 channels or fewer in three products, over others; 26 problems
};

}  // namespace plumb::cuda
