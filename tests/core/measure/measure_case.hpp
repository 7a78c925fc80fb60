// What the tests of measuring share: options that are quick, and a plan of every algorithm.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "plumb/measure.hpp"
#include "plumb/plumb.hpp"

namespace plumb_test::measuring {

using namespace plumb;

/// Quick, for problems of any size.
inline const MeasureOptions few{.min_samples = 3,
                                .max_samples = 5,
                                .seconds_limit = 0.01,
                                .warm_up_seconds = 0,
                                .cold_bytes = 1 << 22};

/// The same where no run takes 200 us, by the clock that is gone by: on a machine that is busy with
/// other things any may, and longer ones stay on one set of buffers.
inline MeasureOptions few_short() {
  MeasureOptions options = few;
  options.clock = [](std::string_view, double seconds) { return std::min(seconds, 199e-6); };
  return options;
}

/// A plan of every algorithm that runs the problem by itself.
inline std::vector<ConvPlan> all_plans(const Device& device, const ConvProblem& problem,
                                       ConvOptions options = {.math = Math::fp16}) {
  std::vector<ConvPlan> plans;
  for (const ConvCandidate& candidate : explain(device, problem, options)) {
    if (!candidate.support) continue;
    options.algorithm = candidate.algorithm;
    plans.emplace_back(device, problem, options);
  }
  return plans;
}

inline ConvProblem problem_of(const char* text) { return parse_problem(text).problem; }

}  // namespace plumb_test::measuring
