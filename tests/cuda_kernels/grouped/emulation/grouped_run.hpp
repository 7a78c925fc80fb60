// A convolution that the sources of grouped/ make on the host.
#pragma once

#include <vector>

#include "cuda_kernels/grouped/grouped.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

struct GroupedRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::GroupedPlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  plumb::cuda::GroupedFault fault =
      plumb::cuda::GroupedFault::none;  ///< of f16, or `unrounded` of f32
};

/// Packs the filters and convolves. Throws std::logic_error for a mistake that is not compiled.
void run_grouped(const GroupedRun& run);

/// What the packing of w writes, of f16.
std::vector<char> packed_grouped(const plumb::ConvProblem& problem,
                                 const plumb::cuda::GroupedPlan& plan, const void* w);

}  // namespace plumb_test::emulation
