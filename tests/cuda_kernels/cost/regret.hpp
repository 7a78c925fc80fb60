// How good choices by estimates are, where times are known: the time of what is chosen over the
// fastest's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/device.hpp"
#include "records.hpp"

namespace plumb_test {

struct Choice {
  const RecordedProblem* of;
  std::string chosen, fastest;
  double regret;                             ///< time of the chosen one over the fastest's
  double chosen_estimate, fastest_estimate;  ///< over their times
};

/// Of one class of arithmetic.
struct Regret {
  std::string arithmetic;  ///< "TF32"
  std::vector<Choice>
      choices;  ///< of problems with times of several that may be chosen, worst first
  std::vector<std::string> untimed;  ///< problems whose chosen algorithm has no time

  double geometric_mean() const;
  double worst() const;
};

/// An algorithm that may be chosen for a problem, and what is known of it.
struct Candidate {
  const plumb::ConvAlgorithm* algorithm;
  plumb::Math math;     ///< the promise that it keeps
  double estimate = 0;  ///< in seconds
  double seconds = 0;   ///< recorded; 0: none
};

/// Of all algorithms that take a problem and are not chosen only when forced.
std::vector<Candidate> candidates_of(const RecordedProblem& recorded,
                                     std::span<const plumb::ConvAlgorithm* const> algorithms,
                                     const plumb::DeviceInfo& device);

/// FP32, TF32, FP16 and BF16. FP32 and TF32 are for tensors of f32, the others of their own type;
/// of f32 tensors that FP16 may serve, where its algorithms were timed. `candidates[i]` is of
/// `recorded[i]`.
std::vector<Regret> regrets(std::span<const RecordedProblem> recorded,
                            std::span<const std::vector<Candidate>> candidates);

/// A table of the classes, and of each its `most` worst choices.
std::string to_string(std::span<const Regret> regrets, std::size_t most);

}  // namespace plumb_test
