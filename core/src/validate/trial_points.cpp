// Chooses the outputs that a trial asks the oracle for.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "trial.hpp"

namespace plumb {
namespace {

/// Of five extents; a y without a depth has one plane.
Extents with_depth(const Extents& y) {
  return y.rank() == 5 ? y : Extents{y[0], y[1], 1, y[2], y[3]};
}

/// The first and the last index.
std::vector<std::int64_t> ends(std::int64_t extent) {
  return extent == 1 ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, extent - 1};
}

/// How many outputs at either end have a window that reaches into the padding, at least one.
std::int64_t border(std::int64_t before, std::int64_t after, std::int64_t stride,
                    std::int64_t outputs) {
  return std::clamp<std::int64_t>((std::max(before, after) + stride - 1) / stride, 1, outputs);
}

}  // namespace

void Trial::choose_points(std::uint64_t seed) {
  const Extents outputs = with_depth(output_of(problem_).extents);
  if (every_output_) {
    for (std::int64_t n = 0; n < outputs[0]; ++n)
      for (std::int64_t k = 0; k < outputs[1]; ++k)
        for (std::int64_t z = 0; z < outputs[2]; ++z)
          for (std::int64_t p = 0; p < outputs[3]; ++p)
            for (std::int64_t q = 0; q < outputs[4]; ++q) points_.push_back({n, k, z, p, q});
    return;
  }
  choose_edges(outputs);
  constexpr double random_points = 1e5, max_products = 2e9;
  const double products_of_one =
      problem_.flop() / 2 / static_cast<double>(element_count(output_of(problem_).extents));
  const double affordable = max_products / products_of_one;
  choose_random(outputs, seed, static_cast<std::int64_t>(std::min(random_points, affordable)));
  // The oracle finds in a cache what it has read for the output before: those of one window, which
  // differ in their filters, follow each other.
  std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
    return std::tie(a.n, a.z, a.p, a.q, a.k) < std::tie(b.n, b.z, b.p, b.q, b.k);
  });
}

/// All outputs at which two of the three axes are at an end; without a depth that is the border.
void Trial::choose_edges(const Extents& outputs) {
  const std::int64_t rows = outputs[3], columns = outputs[4];
  for (const std::int64_t n : ends(outputs[0]))
    for (const std::int64_t k : ends(outputs[1])) {
      for (const std::int64_t z : ends(outputs[2])) {
        for (const std::int64_t p : ends(rows))
          for (std::int64_t q = 0; q < columns; ++q) points_.push_back({n, k, z, p, q});
        for (const std::int64_t q : ends(columns))
          for (std::int64_t p = 1; p < rows - 1; ++p) points_.push_back({n, k, z, p, q});
      }
      for (const std::int64_t p : ends(rows))
        for (const std::int64_t q : ends(columns))
          for (std::int64_t z = 1; z < outputs[2] - 1; ++z) points_.push_back({n, k, z, p, q});
    }
}

/// Every second one where a window reaches beyond the image along one of the axes; of dx within a
/// filter's reach of an end, and of dw at one.
void Trial::choose_random(const Extents& outputs, std::uint64_t seed, std::int64_t count) {
  Random random(seed);
  const Padding& pad = problem_.padding;
  std::int64_t borders[] = {border(pad.front, pad.back, problem_.stride.d, outputs[2]),
                            border(pad.top, pad.bottom, problem_.stride.h, outputs[3]),
                            border(pad.left, pad.right, problem_.stride.w, outputs[4])};
  if (problem_.direction != Direction::forward) {
    const bool of_data = problem_.direction == Direction::backward_data;
    const auto reach = [&](std::int64_t taps, std::int64_t dilation, std::int64_t extent) {
      return of_data ? std::min(taps * dilation, extent) : 1;
    };
    borders[0] = reach(problem_.t, problem_.dilation.d, outputs[2]);
    borders[1] = reach(problem_.r, problem_.dilation.h, outputs[3]);
    borders[2] = reach(problem_.s, problem_.dilation.w, outputs[4]);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    Point point{};
    std::int64_t* const index[] = {&point.n, &point.k, &point.z, &point.p, &point.q};
    for (int d = 0; d < 5; ++d) *index[d] = random.between(0, outputs[d] - 1);
    if (i % 2 == 1) {
      const auto axis = random.between(0, 2);
      const std::int64_t from_end = random.between(0, borders[axis] - 1);
      const std::int64_t last = outputs[static_cast<int>(axis) + 2] - 1;
      *index[axis + 2] = random.between(0, 1) == 0 ? from_end : last - from_end;
    }
    points_.push_back(point);
  }
}

}  // namespace plumb
