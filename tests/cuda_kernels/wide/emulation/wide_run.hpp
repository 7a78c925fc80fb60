// A convolution that the wide kernel's sources make on the host.
#pragma once

#include <vector>

#include "cuda_kernels/wide/wide.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

/// Mistakes, by the names of the kernel's own list.
enum class EmulatedFault {
  none,
  wrong_swizzle,
  stale_stage,
  lost_split,
  low_twice,
  wrong_group,
  wrong_term,
  kept_small,
  stale_fragment,
  lost_low,
  swapped_terms
};

struct WideRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::WidePlan& plan;  ///< its tiles are one of emulated_shapes
  const void *x, *w, *bias;           ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  EmulatedFault fault = EmulatedFault::none;
};

/// Of wide_shapes, those that are compiled for the host.
inline constexpr int emulated_shapes[] = {1, 3, 5, 6};

/// Packs the filters and convolves.
void run_wide(const WideRun& run);

/// Packs the filters, and returns them.
std::vector<char> packed_filters(const WideRun& run);
/// Repacks x, and returns what workspace then has of it.
std::vector<char> repacked_input(const WideRun& run);

}  // namespace plumb_test::emulation
