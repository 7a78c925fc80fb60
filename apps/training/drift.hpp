// How far two devices, or two types of numbers, drift apart in the same training run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "training/trainer.hpp"

namespace plumb::app {

/// One of the two: a device, and what it computes in.
struct DriftSide {
  Device device;
  DType dtype = DType::f32;  ///< f32 or f64
};

/// One step of both runs, from the same first weights on.
struct DriftStep {
  std::int64_t step = 0;  ///< from 1
  double loss_a = 0, loss_b = 0;
  /// |a - b| over the larger of |a| and |b|.
  double loss_difference = 0;
  /// After the step: the largest |a - b| of a weight over the largest |a| of any. (Biases begin at
  /// zero: what they differ by, over themselves, says little.)
  double weights_difference = 0;
};

/// |a - b| over the larger of |a| and |b|, 0 where they are equal.
double relative_difference(double a, double b);
/// The largest of |a - b| over the largest of |a|, both of all parameters; 0 where all are equal.
double largest_relative_difference(const PerParameter<std::vector<double>>& a,
                                   const PerParameter<std::vector<double>>& b);

/// The first `steps` steps of the training that `options` describe, on both sides. `progress` is
/// called with each step that is done; where it returns false, the steps so far are all.
/// TrainingFailure where a loss is no finite number.
std::vector<DriftStep> drift(const DriftSide& a, const DriftSide& b, const Dataset& training,
                             const TrainingOptions& options, std::int64_t steps,
                             const std::function<bool(std::int64_t step)>& progress);

}  // namespace plumb::app
