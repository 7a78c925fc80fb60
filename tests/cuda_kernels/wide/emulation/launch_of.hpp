// The ConvLaunch that the kernels of an emulated run are given.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb_test::emulation {

/// Filters are packed, and workspace is the kernel's own argument.
template <class Run>
plumb::ConvLaunch launch_of(const Run& run, const plumb::DeviceInfo& device) {
  return {.problem = run.problem,
          .device = device,
          .x = run.x,
          .w = nullptr,
          .bias = run.bias,
          .y = run.y,
          .activation = run.relu ? plumb::Activation::relu : plumb::Activation::none,
          .accumulate = run.accumulate,
          .workspace = nullptr,
          .native_queue = nullptr};
}

}  // namespace plumb_test::emulation
