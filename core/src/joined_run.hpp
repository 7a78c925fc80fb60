// How one algorithm computes backward data with strides by one forward convolution, whose filters
// are the phases of dx (lower_joined()): its outputs go through workspace, and from there to their
// pixels, some images at a time, so that a cache holds them.
#pragma once

#include <cstddef>
#include <optional>

#include "conv_lowering.hpp"
#include "conv_run.hpp"

namespace plumb {

class JoinedRun {
 public:
  /// Asks the algorithm. `whole` is the gradient's problem.
  JoinedRun(const ConvAlgorithm& algorithm, const ConvProblem& whole, const JoinedLowering& joined,
            const DeviceInfo& device);

  /// Of as many images as go at a time. All images have the same bits, and the same filters.
  const ConvRun& convolution() const { return convolution_; }
  const Support& support() const {
    return rest_ && convolution_.support() ? rest_->support() : convolution_.support();
  }
  double estimate_seconds() const { return estimate_seconds_; }
  /// Of its filters as they are, and in the algorithm's own layout.
  std::size_t filter_bytes() const { return copy_bytes_ + convolution_.filter_bytes(); }
  /// Beside the packed filters.
  std::size_t workspace_bytes() const;

  void pack(BackendQueue& queue, const DeviceInfo& device, const void* w, void* filters) const;
  /// As BackwardRun::launch(), with dy as it is.
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  /// Of the filters of one group.
  std::int64_t elements_of_phase() const {
    const ConvProblem& p = joined_.problem;
    return whole_.c / whole_.groups * (whole_.k / whole_.groups) * p.t * p.r * p.s;
  }
  void copy_phases(BackendQueue& queue, const DeviceInfo& device, const void* w,
                   void* filters) const;
  void copy_single_taps(BackendQueue& queue, const DeviceInfo& device, const void* w,
                        void* filters) const;
  void spread_bias(BackendQueue& queue, const ConvLaunch& launch, void* to) const;
  void launch_images(BackendQueue& queue, const ConvLaunch& launch, const ConvRun& run,
                     std::int64_t first, std::int64_t images) const;

  ConvProblem whole_;
  JoinedLowering joined_;
  std::int64_t images_;  ///< at a time
  ConvRun convolution_;
  std::optional<ConvRun> rest_;  ///< of what is left after whole times
  double estimate_seconds_;
  std::size_t copy_bytes_, outputs_bytes_, bias_bytes_;
};

}  // namespace plumb
