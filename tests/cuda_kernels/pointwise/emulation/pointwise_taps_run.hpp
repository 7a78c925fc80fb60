// A convolution of few terms that the kernel's sources make on the host.
#pragma once

#include <vector>

#include "cuda_kernels/pointwise/pointwise_taps.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

struct TapsRunning {
  const plumb::ConvProblem& problem;
  const plumb::cuda::TapsPlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
};

/// Packs the filters and convolves.
void run_taps(const TapsRunning& run);

/// What the packing of w writes.
std::vector<char> packed_taps(const plumb::ConvProblem& problem, const plumb::cuda::TapsPlan& plan,
                              const void* w);

}  // namespace plumb_test::emulation
