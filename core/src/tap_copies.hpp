// Filters of gradients: dense copies of some taps of w, in which filters and channels change
// places.
#pragma once

#include "conv_lowering.hpp"
#include "plumb/backend.hpp"

namespace plumb {

/// Where copied taps go, in elements: from group to group, from filter to filter, from channel to
/// channel, and along T, R and S.
struct TapsTo {
  void* filters;
  std::int64_t group_step, filter_step, channel_step;
  std::int64_t steps[3];
};

/// Into dense filters of so many channels and taps.
TapsTo dense_taps(void* filters, std::int64_t channels, const std::int64_t (&taps)[3],
                  std::int64_t group_step);

/// Copies taps of the whole problem's w, whose C/G are the filters and K/G their channels.
void copy_taps(BackendQueue& queue, const DeviceInfo& device, const ConvProblem& whole,
               const LoweredTaps& taps, const void* w, const TapsTo& to);

}  // namespace plumb
