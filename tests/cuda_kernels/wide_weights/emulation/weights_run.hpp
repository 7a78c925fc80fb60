// A gradient that the sources of wide_weights/ compute on the host.
#pragma once

#include "cuda_kernels/wide_weights/wide_weights.hpp"

namespace plumb_test::emulation {

/// Mistakes, by the names of the kernel's own list.
enum class WeightsMistake {
  none,
  lost_split,
  wrong_tap,
  stale_stage,
  wrong_stride,
  low_twice,
  lost_doubt,
  stale_fragment,
  lost_low,
  swapped_pixels
};

struct WideWeightsRun {
  const plumb::cuda::WideWeightsPlan& plan;
  const void *x, *dy;
  void* dw;
  bool accumulate = false;
  WeightsMistake mistake = WeightsMistake::none;
};

/// Mistakes are compiled for one shape alone.
inline constexpr int mistaken_shape = 3;

/// The most lanes of a warp that meet in a bank of shared memory when they read a fragment, of
/// planes as they lie or of pixel rows.
int bank_conflicts(bool across);

/// Computes the gradient, and returns whether a sum of the splits was NaN.
bool run_wide_weights(const WideWeightsRun& run);

}  // namespace plumb_test::emulation
