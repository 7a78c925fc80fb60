// A convolution that the pointwise kernel's sources make on the host.
#pragma once

#include <vector>

#include "cuda_kernels/pointwise/pointwise.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

struct PointwiseRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::PointwisePlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  /// Compiled in one arithmetic for each: of three products those of halves, in FP16 the others.
  plumb::cuda::PointwiseFault fault = plumb::cuda::PointwiseFault::none;
};

/// Packs the filters and convolves. Throws std::logic_error for a mistake that is not compiled.
void run_pointwise(const PointwiseRun& run);

/// What the packing of w writes.
std::vector<char> packed_pointwise(const plumb::ConvProblem& problem,
                                   const plumb::cuda::PointwisePlan& plan, const void* w);

}  // namespace plumb_test::emulation
