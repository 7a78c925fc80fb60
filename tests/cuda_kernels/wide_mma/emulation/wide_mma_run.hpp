// A convolution that the sources of wide_mma/ make on the host.
#pragma once

#include "cuda_kernels/wide_mma/wide_mma.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

struct WideMmaRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::WideMmaPlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  plumb::cuda::WideMmaFault fault = plumb::cuda::WideMmaFault::none;  ///< of fp16 and fp64 alone
};

/// Packs the filters and convolves. Throws std::logic_error for a mistake that is not compiled.
void run_wide_mma(const WideMmaRun& run);

}  // namespace plumb_test::emulation
