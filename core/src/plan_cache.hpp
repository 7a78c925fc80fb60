// What planning decides, and the decisions that conv() has made on one device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "conv_run.hpp"
#include "overlap.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// A plan without the handle of its device: the device's own cache holds these, and a handle in
/// there would keep the device alive for ever.
struct PlannedConv {
  ConvProblem problem;  ///< checked, strides filled in
  ConvOptions options;
  ConvRun run;
  ConvRanges ranges;  ///< of the problem's tensors
};

/// Keyed by problem and options, the latest used last. Safe to use from several threads. Kept
/// small and searched in a line: a network has tens of layers, and a search through this costs
/// less than a launch.
class PlanCache {
 public:
  /// Null where it is not there.
  std::shared_ptr<const PlannedConv> find(const ConvProblem& problem, const ConvOptions& options);
  void insert(std::shared_ptr<const PlannedConv> planned);
  /// After tuning: what was chosen without its times may be chosen otherwise with them.
  void clear();

 private:
  static constexpr std::size_t capacity = 128;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const PlannedConv>> entries_;
};

}  // namespace plumb
