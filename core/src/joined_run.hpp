// How one algorithm computes backward data with strides by one forward convolution, whose filters
// are the phases of dx (lower_joined()): its sums go through workspace, and from there to their
// pixels.
#pragma once

#include <cstddef>

#include "conv_lowering.hpp"
#include "conv_run.hpp"

namespace plumb {

class JoinedRun {
 public:
  /// Asks the algorithm. `whole` is the gradient's problem.
  JoinedRun(const ConvAlgorithm& algorithm, const ConvProblem& whole, const JoinedLowering& joined,
            const DeviceInfo& device);

  const ConvRun& convolution() const { return convolution_; }
  double estimate_seconds() const { return estimate_seconds_; }
  /// Of its filters as they are, and in the algorithm's own layout.
  std::size_t filter_bytes() const { return copy_bytes_ + convolution_.filter_bytes(); }
  /// Beside the packed filters.
  std::size_t workspace_bytes() const {
    return sums_bytes_ + convolution_.packed_workspace_bytes();
  }

  void pack(BackendQueue& queue, const DeviceInfo& device, const void* w, void* filters) const;
  /// As BackwardRun::launch(), with dy as it is.
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  ConvProblem whole_;
  JoinedLowering joined_;
  ConvRun convolution_;
  double estimate_seconds_;
  std::size_t copy_bytes_, sums_bytes_;
};

}  // namespace plumb
