// Two devices' results for the same images, held against each other.
#pragma once

#include <cstdint>
#include <vector>

#include "predict.hpp"

namespace plumb::app {

/// An image that the devices put into different classes.
struct Disagreement {
  std::int64_t image = 0;
  int class_a = 0, class_b = 0;
  /// How far the first device's largest logit lies above its second largest.
  double margin = 0;
};

struct Comparison {
  double largest_difference = 0;            ///< of the logits; NaN where one of them is
  std::int64_t image = 0, class_index = 0;  ///< where it is
  std::vector<Disagreement> disagreements;
};

Comparison compare(const Predictions& a, const Predictions& b);

}  // namespace plumb::app
