// Sizes of a convolution, and the check that every problem passes before anything is planned.
#include <fmt/format.h>

#include <utility>

#include "plumb/conv.hpp"
#include "ranks.hpp"
#include "refuse_convolution.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// 0 where no filter fits, and where check() refuses the values.
std::int64_t output_extent(std::int64_t input, std::int64_t before, std::int64_t after,
                           std::int64_t filter, std::int64_t dilation, std::int64_t stride) {
  std::int64_t reach = 0, padded = 0;
  if (filter < 1 || stride < 1 || __builtin_mul_overflow(dilation, filter - 1, &reach) ||
      __builtin_add_overflow(input, before, &padded) ||
      __builtin_add_overflow(padded, after, &padded) || reach < 0 || padded <= reach)
    return 0;
  return (padded - reach - 1) / stride + 1;
}

void check_sizes(const ConvProblem& p) {
  const struct {
    const char* name;
    std::int64_t value, minimum;
  } sizes[] = {{"N", p.n, 0},
               {"C", p.c, 1},
               {"D", p.d, 1},
               {"H", p.h, 1},
               {"W", p.w, 1},
               {"K", p.k, 1},
               {"T", p.t, 1},
               {"R", p.r, 1},
               {"S", p.s, 1},
               {"groups", p.groups, 1},
               {"stride.d", p.stride.d, 1},
               {"stride.h", p.stride.h, 1},
               {"stride.w", p.stride.w, 1},
               {"dilation.d", p.dilation.d, 1},
               {"dilation.h", p.dilation.h, 1},
               {"dilation.w", p.dilation.w, 1},
               {"padding.front", p.padding.front, 0},
               {"padding.top", p.padding.top, 0},
               {"padding.left", p.padding.left, 0},
               {"padding.back", p.padding.back, 0},
               {"padding.bottom", p.padding.bottom, 0},
               {"padding.right", p.padding.right, 0}};
  for (const auto& size : sizes)
    check_size(convolution_operation, size.name, size.value, size.minimum);
  if (p.c % p.groups != 0)
    refuse_convolution(fmt::format("C is {}; expected a multiple of groups, {}", p.c, p.groups));
  if (p.k % p.groups != 0)
    refuse_convolution(fmt::format("K is {}; expected a multiple of groups, {}", p.k, p.groups));
}

/// What moves nothing along a depth that is not there is set to its default: equal problems are
/// then equal.
void clear_depth(ConvProblem& p) {
  if (p.has_depth()) return;
  p.stride.d = p.dilation.d = 1;
  p.padding.front = p.padding.back = 0;
}

/// Whether a window reaches beyond the end of the image. The sizes have been checked.
bool reaches_beyond(std::int64_t input, std::int64_t before, std::int64_t outputs,
                    std::int64_t stride, std::int64_t filter, std::int64_t dilation) {
  return (outputs - 1) * stride + (filter - 1) * dilation >= before + input;
}

/// A boundary that no window sees is one of zeros, for the same reason.
void clear_boundaries(ConvProblem& p) {
  const Padding& pad = p.padding;
  if (pad.front == 0 && !reaches_beyond(p.d, 0, p.z(), p.stride.d, p.t, p.dilation.d))
    p.boundary.d = Boundary::zeros;
  if (pad.top == 0 && !reaches_beyond(p.h, 0, p.p(), p.stride.h, p.r, p.dilation.h))
    p.boundary.h = Boundary::zeros;
  if (pad.left == 0 && !reaches_beyond(p.w, 0, p.q(), p.stride.w, p.s, p.dilation.w))
    p.boundary.w = Boundary::zeros;
}

/// An edge that is not repeated shows what is next to it.
void check_boundaries(const ConvProblem& p) {
  const struct {
    Boundary boundary;
    std::int64_t extent, before, after;
    char name;
  } axes[] = {{p.boundary.d, p.d, p.padding.front, p.padding.back, 'D'},
              {p.boundary.h, p.h, p.padding.top, p.padding.bottom, 'H'},
              {p.boundary.w, p.w, p.padding.left, p.padding.right, 'W'}};
  for (const auto& axis : axes)
    if (axis.boundary == Boundary::reflect && axis.extent < 2)
      refuse_convolution(
          fmt::format("{} is {}, padded by {} and {}; a boundary that reflects needs at least 2",
                      axis.name, axis.extent, axis.before, axis.after));
}

/// Pooling needs a whole window in each direction.
void check_pool(const ConvProblem& problem) {
  if (problem.pool == Pool::none) return;
  if (problem.direction != Direction::forward)
    refuse_convolution(
        fmt::format("pooling 2x2 in {}; expected none", to_string(problem.direction)));
  if (problem.has_depth())
    refuse_convolution(
        fmt::format("pooling 2x2 of a problem with a depth (D is {}, T is {}); expected none",
                    problem.d, problem.t));
  for (const auto& [extent, name] : {std::pair{problem.p(), 'P'}, {problem.q(), 'Q'}})
    if (extent < 2)
      refuse_convolution(fmt::format("{} is {}; pooling 2x2 needs at least 2", name, extent));
  element_count({problem.n, problem.k, problem.p(), problem.q()});
}

/// Empty strides are dense ones; those of another rank are converted to the problem's.
void fill(Strides& strides, const Extents& extents) {
  element_count(extents);
  strides = strides.empty() ? dense_strides(extents) : strides_of_rank(strides, extents);
}

}  // namespace

std::int64_t ConvProblem::z() const {
  return output_extent(d, padding.front, padding.back, t, dilation.d, stride.d);
}

std::int64_t ConvProblem::p() const {
  return output_extent(h, padding.top, padding.bottom, r, dilation.h, stride.h);
}

std::int64_t ConvProblem::q() const {
  return output_extent(w, padding.left, padding.right, s, dilation.w, stride.w);
}

Extents ConvProblem::x_extents() const {
  return has_depth() ? Extents{n, c, d, h, w} : Extents{n, c, h, w};
}

Extents ConvProblem::w_extents() const {
  return has_depth() ? Extents{k, c / groups, t, r, s} : Extents{k, c / groups, r, s};
}

Extents ConvProblem::y_extents() const {
  if (has_depth()) return {n, k, z(), p(), q()};
  return pool == Pool::none ? Extents{n, k, p(), q()} : Extents{n, k, p() / 2, q() / 2};
}

ConvProblem ConvProblem::unpooled() const {
  ConvProblem convolution = *this;
  convolution.pool = Pool::none;
  convolution.y_strides = dense_strides(convolution.y_extents());
  return convolution;
}

double ConvProblem::flop() const {
  return 2.0 * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(z()) *
         static_cast<double>(p()) * static_cast<double>(q()) *
         static_cast<double>(c / groups * t * r * s);
}

double ConvProblem::bytes() const {
  const auto count = [](const Extents& extents) {
    double product = 1;
    for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
    return product;
  };
  return (count(x_extents()) + count(w_extents()) + count(y_extents())) *
         static_cast<double>(size_in_bytes(dtype));
}

ConvProblem check(ConvProblem problem) {
  check_sizes(problem);
  clear_depth(problem);
  check_window_fits(convolution_operation, "filter", problem.t, problem.dilation.d,
                    problem.d + problem.padding.front + problem.padding.back, "planes");
  check_window_fits(convolution_operation, "filter", problem.r, problem.dilation.h,
                    problem.h + problem.padding.top + problem.padding.bottom, "rows");
  check_window_fits(convolution_operation, "filter", problem.s, problem.dilation.w,
                    problem.w + problem.padding.left + problem.padding.right, "columns");
  clear_boundaries(problem);
  check_boundaries(problem);
  check_pool(problem);
  fill(problem.x_strides, problem.x_extents());
  fill(problem.w_strides, problem.w_extents());
  fill(problem.y_strides, problem.y_extents());
  for (const auto& operand : {image_of(problem), filters_of(problem)})
    check_layout(convolution_operation, operand.name, operand.extents, operand.strides);
  const ConvOperand output = output_of(problem);
  check_output_layout(convolution_operation, output.name, output.extents, output.strides);
  return problem;
}

}  // namespace plumb
