// Two devices' results, held against each other.
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace plumb::app {

Comparison compare(const Predictions& a, const Predictions& b) {
  const std::size_t images = a.classes.size();
  const std::size_t classes = a.logits.size() / images;
  Comparison result;
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    const double difference =
        std::abs(static_cast<double>(a.logits[i]) - static_cast<double>(b.logits[i]));
    // A NaN is larger than every difference.
    if (!(difference <= result.largest_difference) && !std::isnan(result.largest_difference)) {
      result.largest_difference = difference;
      result.image = static_cast<std::int64_t>(i / classes);
      result.class_index = static_cast<std::int64_t>(i % classes);
    }
  }
  for (std::size_t image = 0; image < images; ++image) {
    if (a.classes[image] == b.classes[image]) continue;
    std::vector<float> logits(
        a.logits.begin() + static_cast<std::ptrdiff_t>(image * classes),
        a.logits.begin() + static_cast<std::ptrdiff_t>((image + 1) * classes));
    std::partial_sort(logits.begin(), logits.begin() + 2, logits.end(), std::greater<>());
    result.disagreements.push_back(
        {static_cast<std::int64_t>(image), a.classes[image], b.classes[image],
         static_cast<double>(logits[0]) - static_cast<double>(logits[1])});
  }
  return result;
}

}  // namespace plumb::app
