// How long a pipeline takes, and its stages alone.
#pragma once

#include <algorithm>
#include <vector>

#include "host_case.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {

/// Seconds that each stage takes for the whole batch when nothing else is under way: the same
/// segments, one after the other, copies from and to pinned memory.
struct StageSeconds {
  double copy_in = 0, kernel = 0, copy_out = 0;
  double slowest() const { return std::max({copy_in, kernel, copy_out}); }
};

/// `host` is in pinned memory. On the CPU, where nothing is copied, the copies are 0. Medians.
StageSeconds time_stages(const Device& device, const ConvPipeline& pipeline, const HostCase& host);

/// The median of several runs, of the wall clock, after one that warms up.
double time_pipeline(ConvPipeline& pipeline, const HostCase& host);

}  // namespace plumb::app
