// What measuring holds in memory at once.
#pragma once

#include <span>

#include "plumb/measure.hpp"

namespace plumb {

/// Error (out_of_memory, with Reason::too_large) where the memory is not there for the contestants
/// of one problem.
void require_memory(std::span<const ConvPlan> contestants, const MeasureOptions& options);

}  // namespace plumb
