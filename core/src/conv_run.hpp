// How one algorithm computes one problem.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plumb/backend.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// By itself, or, where the problem pools and the algorithm does not, as a convolution into
/// workspace with the backend's pooling behind it, a slice of the batch at a time.
class ConvRun {
 public:
  /// Asks the algorithm. `problem` has passed check().
  ConvRun(const ConvAlgorithm& algorithm, const ConvProblem& problem, const DeviceInfo& device);

  const ConvAlgorithm& algorithm() const { return *algorithm_; }
  const Support& support() const { return support_; }
  /// The problem pools, and the algorithm does it.
  bool fuses_pool() const { return fuses_pool_; }
  std::size_t workspace_bytes() const { return intermediate_bytes_ + algorithm_bytes_; }
  double estimate_seconds() const { return estimate_seconds_; }

  /// `launch` is of the problem asked about, with a workspace of workspace_bytes().
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  void ask_alone(const ConvProblem& problem, const DeviceInfo& device);
  void ask_for_slices(const ConvProblem& problem, const DeviceInfo& device);
  void launch_slice(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
                    std::int64_t first) const;

  const ConvAlgorithm* algorithm_;
  Support support_;
  bool fuses_pool_ = false;
  bool in_slices_ = false;
  ConvProblem slice_, last_slice_;      ///< without pooling; the last has N = 0 where none is left
  std::size_t intermediate_bytes_ = 0;  ///< a slice's convolution, at the workspace's beginning
  std::size_t algorithm_bytes_ = 0;     ///< the algorithm's own, behind it
  double estimate_seconds_ = 0;
};

}  // namespace plumb
