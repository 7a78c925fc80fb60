// A convolution that the Toeplitz kernel's sources make on the host.
#pragma once

#include "cuda_kernels/toeplitz/toeplitz.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

/// Mistakes, by the names of the kernel's own list.
enum class EmulatedFault {
  none,
  wrong_wrap,
  lost_low,
  dropped_pass,
  stale_scale,
  kept_small,
  stale_plane
};

struct ToeplitzRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::ToeplitzPlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  int blocks = 2;  ///< at most, which go through the tiles
  EmulatedFault fault = EmulatedFault::none;
};

/// Packs the filters and convolves.
void run_toeplitz(const ToeplitzRun& run);

}  // namespace plumb_test::emulation
