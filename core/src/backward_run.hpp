// How one algorithm computes a gradient: by itself, or by forward convolutions (conv_lowering.hpp).
//
// Boundaries other than zeros are done around it: backward weights reads a copy of x with its
// padding; backward data writes the gradient of that copy to workspace, where what the boundary
// shows again is added to where it came from (fold.hpp). So is accumulation for an algorithm that
// computes gradients and does not add. With a ReLU's mask dy is a copy too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conv_run.hpp"
#include "joined_run.hpp"
#include "lowered_run.hpp"

namespace plumb {

class BackwardRun {
 public:
  /// Asks the algorithm. `problem` has passed check() and is not forward.
  BackwardRun(const ConvAlgorithm& algorithm, const ConvProblem& problem, const DeviceInfo& device,
              const RunOptions& options);

  const Support& support() const { return support_; }
  /// As ConvRun::reproduces(), of an algorithm whose numerics say that it can.
  Support reproduces() const;
  double estimate_seconds() const { return estimate_seconds_; }
  bool fuses_accumulate() const { return fuses_accumulate_; }
  /// x goes through workspace first.
  bool copies_input() const { return pads() && !of_data(); }
  /// How many it is made of; 0 where the algorithm computes it by itself.
  std::int64_t forward_convolutions() const {
    return joined_ ? 1 : lowered_ ? lowered_->convolutions() : 0;
  }

  /// Which phases the filters are packed for, which options may change.
  std::string phases_text() const { return phases_text_; }
  /// Of the taps of each convolution, and of them in the algorithm's own layout. 0 in backward
  /// weights, where dy takes the filters' part.
  std::size_t filter_bytes() const;
  /// Beside the packed filters.
  std::size_t workspace_bytes() const {
    return masked_bytes_ + padded_bytes_ + staged_bytes_ + own_workspace_bytes_;
  }

  void pack(BackendQueue& queue, const DeviceInfo& device, const void* w, void* filters) const;
  /// The filters have been packed, where they take memory.
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  bool of_data() const { return problem_.direction == Direction::backward_data; }
  /// There is a boundary other than zeros.
  bool pads() const { return problem_.boundary != Boundaries{}; }
  void set_inner(bool stages_output);
  bool plan_by_itself(const DeviceInfo& device);
  void plan_forward(const DeviceInfo& device);
  RunOptions options_of_parts() const;
  /// Ways to make backward data of forward convolutions.
  struct Way {
    enum class Phases { in_place, copied, joined };
    ConvProblem problem;  ///< of one image, whose strides make the phases
    Phases phases = Phases::in_place;
    double seconds = 0;  ///< of many images
  };
  std::vector<Way> ways(const ConvProblem& one) const;
  double seconds_of_many(const Way& way, const DeviceInfo& device) const;
  bool takes(const Way& way, const DeviceInfo& device);
  Way plan_phases(const ConvProblem& one, const DeviceInfo& device);
  /// Whether a way that there is another one beside stays within the limit.
  template <class Run>
  bool fits(const Run& run) const {
    return run.filter_bytes() + run.workspace_bytes() <= options_of_parts().workspace_limit_bytes;
  }
  void count_staging(const DeviceInfo& device);
  void mask(BackendQueue& queue, const ConvLaunch& launch, void* to) const;
  void sum_bias_gradient(BackendQueue& queue, const ConvLaunch& launch, const void* dy) const;
  void pad_input(BackendQueue& queue, const ConvLaunch& launch, void* to) const;
  void deliver(BackendQueue& queue, const ConvLaunch& launch, void* from) const;

  const ConvAlgorithm* algorithm_;
  ConvProblem problem_;
  ConvProblem inner_;  ///< without boundaries, its tensors dense where they are copies
  RunOptions options_;
  Support support_;
  Support bits_of_itself_;  ///< of an algorithm that computes the gradient
  double estimate_seconds_ = 0;
  std::string phases_text_;
  bool fuses_accumulate_ = false;
  bool stages_output_ = false;  ///< the output goes through workspace
  /// Of the workspace, in this order: dy masked, x padded, the output, the algorithm's own.
  std::size_t masked_bytes_ = 0, padded_bytes_ = 0, staged_bytes_ = 0, own_workspace_bytes_ = 0;
  std::optional<PlanResult> itself_;   ///< of an algorithm that computes the gradient
  std::optional<JoinedRun> joined_;    ///< all phases at once
  std::optional<LoweredRun> lowered_;  ///< one forward convolution for each phase or group
};

}  // namespace plumb
