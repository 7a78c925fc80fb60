// Choosing an algorithm.
#pragma once

#include <memory>
#include <vector>

#include "plan_cache.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// What is asked for from outside stands in for what the caller left open.
ConvOptions with_environment(ConvOptions options);

/// Error (invalid_argument) where options do not go with a checked problem.
void check_options(const ConvProblem& problem, const ConvOptions& options);

/// Every algorithm with what it says to a checked problem; one is chosen if any can run.
std::vector<ConvCandidate> candidates(const Device& device, const ConvProblem& problem,
                                      const ConvOptions& options);

/// The one chosen. Error (unsupported) where none can run, with each one's reason.
std::shared_ptr<const PlannedConv> choose(const Device& device, const ConvProblem& problem,
                                          const ConvOptions& options);

}  // namespace plumb
