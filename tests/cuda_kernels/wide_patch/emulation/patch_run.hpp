// A convolution that the patch kernel's sources make on the host.
#pragma once

#include "cuda_kernels/wide_patch/wide_patch.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

/// Mistakes, by the names of the kernel's own list.
enum class EmulatedPatchFault {
  none,
  wrong_shift,
  stale_patch,
  lost_stage,
  missed_column,
  no_zeros,
  lost_phase,
  other_phase,
  wrong_begin
};

struct PatchRun {
  const plumb::ConvProblem& problem;
  const plumb::cuda::PatchPlan& plan;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false, accumulate = false;
  EmulatedPatchFault fault = EmulatedPatchFault::none;
};

/// Packs the filters and convolves.
void run_patch(const PatchRun& run);

}  // namespace plumb_test::emulation
