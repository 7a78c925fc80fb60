// Problems of gradients and of transposed convolutions, from their tensors.
#include <fmt/format.h>

#include "conv_tensors.hpp"
#include "refuse_convolution.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// All three say something that the problem needs.
ConvProblem gradient_problem(const NamedTensors& tensors, Direction direction,
                             const ConvGeometry& geometry) {
  const auto there = [](const ConstTensorView& view, const char* name) {
    if (view.empty()) refuse_convolution(fmt::format("{} is missing; expected a tensor", name));
  };
  there(tensors.x, tensors.names.x);
  there(tensors.w, tensors.names.w);
  there(tensors.y, tensors.names.y);
  return problem_of(tensors, direction, geometry);
}

}  // namespace

ConvProblem backward_data_problem(const BackwardDataTensors& tensors,
                                  const ConvGeometry& geometry) {
  return gradient_problem(
      {.x = tensors.dx, .w = tensors.w, .y = tensors.dy, .names = {"dx", "w", "dy"}},
      Direction::backward_data, geometry);
}

ConvProblem backward_weights_problem(const BackwardWeightsTensors& tensors,
                                     const ConvGeometry& geometry) {
  return gradient_problem(
      {.x = tensors.x, .w = tensors.dw, .y = tensors.dy, .names = {"x", "dw", "dy"}},
      Direction::backward_weights, geometry);
}

ConvProblem transposed_problem(const TransposedTensors& tensors, const ConvGeometry& geometry) {
  return gradient_problem(
      {.x = tensors.y, .w = tensors.w, .y = tensors.x, .names = {"y", "w", "x"}},
      Direction::backward_data, geometry);
}

Extents transposed_extents(const Extents& x, const Extents& w, const ConvGeometry& geometry,
                           const Triple& output_padding) {
  const int rank = x.rank();
  if (rank < 3 || rank > 5 || w.rank() != rank)
    refuse_convolution(fmt::format("x has extents {}, w {}; expected three to five of each",
                                   to_string(x), to_string(w)));
  if (geometry.groups < 1 || w[0] != x[1])
    refuse_convolution(
        fmt::format("x is {}, w {}, groups {}; expected filters for each channel of x",
                    to_string(x), to_string(w), geometry.groups));
  const Padding& pad = geometry.padding;
  const struct {
    std::int64_t stride, dilation, before, after, more;
  } axes[] = {{geometry.stride.d, geometry.dilation.d, pad.front, pad.back, output_padding.d},
              {geometry.stride.h, geometry.dilation.h, pad.top, pad.bottom, output_padding.h},
              {geometry.stride.w, geometry.dilation.w, pad.left, pad.right, output_padding.w}};
  Extents y = x;
  y[1] = w[1] * geometry.groups;
  for (int i = 2; i < rank; ++i) {
    const auto& axis = axes[5 - rank + i - 2];
    check_size(convolution_operation, "x's extent", x[i], 1);
    check_size(convolution_operation, "w's extent", w[i], 1);
    check_size(convolution_operation, "stride", axis.stride, 1);
    check_size(convolution_operation, "dilation", axis.dilation, 1);
    if (axis.more < 0 || axis.more >= axis.stride)
      refuse_convolution(fmt::format("output_padding is {} where the stride is {}; expected less",
                                     axis.more, axis.stride));
    std::int64_t swept = 0, reach = 0;
    if (__builtin_mul_overflow(x[i] - 1, axis.stride, &swept) ||
        __builtin_mul_overflow(w[i] - 1, axis.dilation, &reach) ||
        __builtin_add_overflow(swept, reach, &y[i]) ||
        __builtin_sub_overflow(y[i] + 1 + axis.more, axis.before, &y[i]) ||
        __builtin_sub_overflow(y[i], axis.after, &y[i]) || y[i] < 1)
      refuse_convolution(
          fmt::format("y's extent {} of x {} and w {} is not from 1 on, or beyond 2^63", i,
                      to_string(x), to_string(w)));
  }
  return y;
}

}  // namespace plumb
