// How one algorithm computes a gradient by the forward convolutions of lower(): backward data by
// one for each phase of the strides.
//
// Pixels of a phase lie a stride apart in dx. Where channels do not lie innermost, those are
// elements one by one, and each phase would repack dy for itself. There dy may be copied once, to
// workspace with channels innermost, and the phases write a dx of that layout, from which one copy
// makes the caller's.
//
// Phases depend on nothing of each other, and one by itself may leave much of a GPU idle: there
// they are branches of the queue, each with workspace of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "conv_lowering.hpp"
#include "conv_run.hpp"

namespace plumb {

class LoweredRun {
 public:
  /// Whether such copies may be of use: of backward data that has several phases, and a tensor
  /// whose channels do not lie innermost.
  static bool may_copy(const ConvProblem& problem);

  /// Asks the algorithm. `problem` is a gradient's, has at least one image, which its lowering
  /// needs, and no boundary; the runs are of `images`. With `copies` both tensors have channels
  /// innermost where the convolutions are.
  LoweredRun(const ConvAlgorithm& algorithm, const ConvProblem& problem, std::int64_t images,
             const DeviceInfo& device, const RunOptions& options, bool copies);

  const Support& support() const { return support_; }
  /// As ConvRun::reproduces(), of all convolutions.
  Support reproduces() const;
  double estimate_seconds() const { return estimate_seconds_; }
  std::int64_t convolutions() const { return static_cast<std::int64_t>(parts_.size()); }

  /// As BackwardRun::filter_bytes().
  std::size_t filter_bytes() const;
  /// Beside the packed filters.
  std::size_t workspace_bytes() const { return image_bytes_ + output_bytes_ + all_own_bytes(); }

  void pack(BackendQueue& queue, const DeviceInfo& device, const void* w, void* filters) const;
  /// As BackwardRun::launch(), with dy as it is.
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  /// A forward convolution, and which of the runs computes it: equal ones share a run.
  struct Part {
    LoweredConv convolution;
    std::size_t run;
    std::size_t copy_bytes;  ///< of its taps
  };

  std::size_t all_own_bytes() const { return static_cast<std::size_t>(branches_) * own_bytes_; }
  bool of_data() const { return problem_.direction == Direction::backward_data; }
  void plan(const ConvAlgorithm& algorithm, const DeviceInfo& device);
  void count_copies(const DeviceInfo& device);
  void plan_branches(const DeviceInfo& device);
  void launch_parts(BackendQueue& queue, const ConvLaunch& launch) const;
  void write_zeros(BackendQueue& queue, const ConvLaunch& launch, const LoweredZeros& zeros) const;

  ConvProblem whole_;    ///< as the caller's tensors lie
  ConvProblem problem_;  ///< as those of the convolutions do
  std::int64_t images_;
  RunOptions options_;
  Support support_;
  double estimate_seconds_ = 0;
  int branches_ = 1;
  /// Of the workspace, in this order: dy and dx where they are copied, the algorithm's own, for
  /// each branch.
  std::size_t image_bytes_ = 0, output_bytes_ = 0, own_bytes_ = 0;
  std::vector<ConvRun> runs_;
  std::vector<Part> parts_;
  std::vector<LoweredZeros> zeros_;
};

}  // namespace plumb
