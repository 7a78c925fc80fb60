// The directions of a convolution: their names, and which tensor takes which part in each.
#include <algorithm>
#include <numeric>

#include "names.hpp"
#include "plumb/conv.hpp"

namespace plumb {
namespace {

constexpr Name<Direction> directions[] = {{Direction::forward, "forward"},
                                          {Direction::backward_data, "backward_data"},
                                          {Direction::backward_weights, "backward_weights"}};

/// The taps that may reach one pixel: they are a common step apart, by which the stride comes to
/// the same phase again.
std::int64_t taps_of_pixel(std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t step = stride / std::gcd(stride, dilation);
  return (taps - 1) / step + 1;
}

}  // namespace

std::string_view to_string(Direction direction) { return name_of(directions, direction); }
std::optional<Direction> parse_direction(std::string_view text) {
  return value_of(directions, text);
}

ConvOperand image_of(const ConvProblem& p) {
  if (p.direction == Direction::backward_data) return {"dy", p.y_extents(), p.y_strides};
  return {"x", p.x_extents(), p.x_strides};
}

ConvOperand filters_of(const ConvProblem& p) {
  if (p.direction == Direction::backward_weights) return {"dy", p.y_extents(), p.y_strides};
  return {"w", p.w_extents(), p.w_strides};
}

ConvOperand output_of(const ConvProblem& p) {
  switch (p.direction) {
    case Direction::forward: break;
    case Direction::backward_data: return {"dx", p.x_extents(), p.x_strides};
    case Direction::backward_weights: return {"dw", p.w_extents(), p.w_strides};
  }
  return {"y", p.y_extents(), p.y_strides};
}

std::int64_t bias_elements(const ConvProblem& p) {
  return p.direction == Direction::backward_data ? p.c : p.k;
}

std::int64_t ConvProblem::terms() const {
  switch (direction) {
    case Direction::forward: break;
    case Direction::backward_data:
      return k / groups * taps_of_pixel(t, stride.d, dilation.d) *
             taps_of_pixel(r, stride.h, dilation.h) * taps_of_pixel(s, stride.w, dilation.w);
    case Direction::backward_weights: return n * z() * p() * q();
  }
  return c / groups * t * r * s;
}

}  // namespace plumb
