// Times of cuts of the depthwise kernels, as docs/results/2026-11-26-h200-depthwise.json has them:
// for each problem and kernel the cut that was planned then and the fastest of a sweep.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda_kernels/depthwise/depthwise.hpp"

namespace plumb_test {

/// What the planner must be asked for to make a cut, and its time.
struct RecordedCut {
  plumb::cuda::DepthwiseChoice choice;
  double seconds = 0;
  bool planned = false;  ///< by the planner of that day
};

/// A problem, of a stored type and a layout, by one kernel.
struct RecordedCase {
  std::string name, layout;
  plumb::ConvProblem problem;
  plumb::cuda::DepthwiseKernel kernel{};
  std::vector<RecordedCut> cuts;

  double least_seconds() const;
  /// Whether the sweep had time for all cuts, so that those that are not here were no faster than
  /// the second of those that are.
  bool swept() const;
};

/// Throws std::runtime_error where the planner no longer knows a cut.
std::vector<RecordedCase> recorded_cases(const std::filesystem::path& results);

/// All choices that the sweep makes for a kernel.
std::vector<plumb::cuda::DepthwiseChoice> swept_choices(plumb::cuda::DepthwiseKernel kernel);

/// How a plan cuts its problem: its form, its lanes or its length, and last the threads of a block.
std::vector<int> cut_of(const plumb::cuda::DepthwisePlan& plan);

/// The time of a plan, or of the same cut in blocks of other sizes where that alone was timed;
/// nothing where neither was.
std::optional<double> seconds_of(const RecordedCase& recorded,
                                 const plumb::cuda::DepthwisePlan& plan);

}  // namespace plumb_test
