// What the commands that measure say of a device and of a measurement alike.
#pragma once

#include "plumb/plumb.hpp"

namespace plumb::app {

/// The device and its ceilings, as the head of a report.
void print_device(const Device& device, const DeviceCeilings& ceilings);

/// A fast kernel with wrong results is no result: ValidationFailure where the contestant threw, or
/// an output is off by more than its bound.
void require_right(const ConvProblem& problem, const Measurement& seen);

}  // namespace plumb::app
