// Filters of gradients: dense copies of some taps of w, in which filters and channels change
// places.
#pragma once

#include "conv_lowering.hpp"
#include "plumb/backend.hpp"

namespace plumb {

/// Where copied taps go: into filters of so many taps, groups of them so far apart in elements.
struct TapsTo {
  void* filters;
  std::int64_t taps[3];
  std::int64_t group_step;
};

/// Copies taps of the whole problem's w to C/G K/G T R S for each group.
void copy_taps(BackendQueue& queue, const DeviceInfo& device, const ConvProblem& whole,
               const LoweredTaps& taps, const void* w, const TapsTo& to);

}  // namespace plumb
