// How one algorithm computes one problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "conv_stages.hpp"
#include "plumb/backend.hpp"
#include "plumb/conv.hpp"

namespace plumb {

class BackwardRun;

/// What a run is to do beside its problem.
struct RunOptions {
  bool accumulate = false;    ///< ConvOptions::accumulate
  bool relu_mask = false;     ///< ConvOptions::relu_mask
  bool reproducible = false;  ///< ConvOptions::reproducible
  /// More is not taken where there is a way with less.
  std::size_t workspace_limit_bytes = std::numeric_limits<std::size_t>::max();
};

/// By itself, or, where the problem asks for more than the algorithm computes, with copies, pooling
/// or an addition around it, a slice of the problem at a time (conv_stages.hpp). Before it the
/// filters are packed, where the algorithm has a layout of its own and they have not been.
/// Gradients are a BackwardRun's.
class ConvRun {
 public:
  /// Asks the algorithm. `problem` has passed check().
  ConvRun(const ConvAlgorithm& algorithm, const ConvProblem& problem, const DeviceInfo& device,
          const RunOptions& options = {});

  const ConvAlgorithm& algorithm() const { return *algorithm_; }
  const Support& support() const { return plan_.support; }
  /// The problem pools, and the algorithm does it.
  bool fuses_pool() const { return fuses_pool_; }
  /// Whether its bits are those that docs/numerics.md specifies, or would be if they were asked
  /// for, and if not, why. A run of which they are asked for supports nothing else.
  const Support& reproduces() const { return reproduces_; }
  /// They are asked for, which may change the layout of packed filters.
  bool reproducible() const { return options_.reproducible; }
  /// An image gives the same bits in every batch.
  bool invariant() const;
  /// y's old values are added, and the algorithm does it.
  bool fuses_accumulate() const { return fuses_accumulate_; }
  /// x goes through workspace first.
  bool copies_input() const;
  /// Of a gradient that the algorithm does not compute by itself, otherwise 0.
  std::int64_t forward_convolutions() const;
  /// Of backward data by forward convolutions the phases that its filters are packed for.
  std::string phases_text() const;
  /// Of the filters in the algorithm's own layout; 0 where it reads w as it lies.
  std::size_t filter_bytes() const;
  /// For a launch that packs filters first, and for one that finds them packed.
  std::size_t workspace_bytes() const;
  std::size_t packed_workspace_bytes() const;
  double estimate_seconds() const { return plan_.estimate_seconds; }
  bool has_depth() const { return has_depth_; }  ///< the problem that was asked about
  /// What the algorithm is asked to run, but for N: filters packed for it serve all of N.
  const ConvProblem& launched() const { return slice_; }

  /// Packs into filter_bytes() of memory, which is not 0.
  void pack(BackendQueue& queue, const DeviceInfo& device, const void* w, void* filters) const;
  /// `launch` is of the problem asked about. Without packed filters w is packed first, for this
  /// launch alone. The workspace is as large as that takes.
  void launch(BackendQueue& queue, const ConvLaunch& launch) const;

 private:
  /// Some planes of the output, computed by a run of their own, and where their tensors begin in
  /// those of the whole, in elements.
  struct Segment;
  void plan_forward(const ConvProblem& problem, const DeviceInfo& device);
  void plan_backward(const DeviceInfo& device);
  void plan_in_segments(const ConvProblem& problem, const DeviceInfo& device);
  Support bits_of(const DeviceInfo& device) const;
  void pack_segments(BackendQueue& queue, const DeviceInfo& device, const void* w,
                     void* filters) const;
  void launch_segments(BackendQueue& queue, const ConvLaunch& launch) const;
  void plan_in_stages(const ConvProblem& problem, const DeviceInfo& device);
  void launch_packed(BackendQueue& queue, const ConvLaunch& launch) const;

  const ConvAlgorithm* algorithm_;
  RunOptions options_;
  Support reproduces_;
  /// Of `slice_`; where there are several slices, the estimate and the workspace are of all of
  /// them.
  PlanResult plan_;
  bool fuses_pool_ = false, fuses_accumulate_ = false, has_depth_ = false;
  ConvStages stages_;
  ConvProblem slice_;  ///< all of the problem, or what one launch computes of it
  std::shared_ptr<const KernelPlan> last_kernel_;  ///< of what is left after whole slices
  std::vector<Segment> segments_;                  ///< empty: all of it in one way
  std::shared_ptr<const BackwardRun> backward_;    ///< null: forward
};

struct ConvRun::Segment {
  ConvRun run;
  ConvProblem problem;
  std::int64_t x = 0, w = 0, y = 0;
  std::size_t copy_bytes() const;  ///< of its filters
};

}  // namespace plumb
