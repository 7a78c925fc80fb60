// Sizes of a convolution, and the check that every problem passes before anything is planned.
#include <fmt/format.h>

#include <utility>

#include "plumb/conv.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

constexpr const char* operation = "convolution";

[[noreturn]] void refuse(const std::string& message) { refuse_argument(operation, message); }

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
               {"H", p.h, 1},
               {"W", p.w, 1},
               {"K", p.k, 1},
               {"R", p.r, 1},
               {"S", p.s, 1},
               {"groups", p.groups, 1},
               {"stride.h", p.stride.h, 1},
               {"stride.w", p.stride.w, 1},
               {"dilation.h", p.dilation.h, 1},
               {"dilation.w", p.dilation.w, 1},
               {"padding.top", p.padding.top, 0},
               {"padding.left", p.padding.left, 0},
               {"padding.bottom", p.padding.bottom, 0},
               {"padding.right", p.padding.right, 0}};
  for (const auto& size : sizes) check_size(operation, size.name, size.value, size.minimum);
  if (p.c % p.groups != 0)
    refuse(fmt::format("C is {}; expected a multiple of groups, {}", p.c, p.groups));
  if (p.k % p.groups != 0)
    refuse(fmt::format("K is {}; expected a multiple of groups, {}", p.k, p.groups));
}

/// Pooling needs a whole window in each direction.
void check_pool(const ConvProblem& problem) {
  if (problem.pool == Pool::none) return;
  for (const auto& [extent, name] : {std::pair{problem.p(), 'P'}, {problem.q(), 'Q'}})
    if (extent < 2) refuse(fmt::format("{} is {}; pooling 2x2 needs at least 2", name, extent));
  element_count({problem.n, problem.k, problem.p(), problem.q()});
}

/// Empty strides are dense ones.
void fill(Strides& strides, const Extents& extents) {
  element_count(extents);
  if (strides.empty()) strides = dense_strides(extents);
}

}  // namespace

std::int64_t ConvProblem::p() const {
  return output_extent(h, padding.top, padding.bottom, r, dilation.h, stride.h);
}

std::int64_t ConvProblem::q() const {
  return output_extent(w, padding.left, padding.right, s, dilation.w, stride.w);
}

Extents ConvProblem::y_extents() const {
  return pool == Pool::none ? Extents{n, k, p(), q()} : Extents{n, k, p() / 2, q() / 2};
}

ConvProblem ConvProblem::unpooled() const {
  ConvProblem convolution = *this;
  convolution.pool = Pool::none;
  convolution.y_strides = dense_strides(convolution.y_extents());
  return convolution;
}

double ConvProblem::flop() const {
  return 2.0 * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(p()) *
         static_cast<double>(q()) * static_cast<double>(terms());
}

double ConvProblem::bytes() const {
  const Extents y = y_extents();
  const double elements =
      static_cast<double>(n) * static_cast<double>(c) * static_cast<double>(h * w) +
      static_cast<double>(k) * static_cast<double>(terms()) +
      static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(y[2] * y[3]);
  return elements * static_cast<double>(size_in_bytes(dtype));
}

ConvProblem check(ConvProblem problem) {
  check_sizes(problem);
  check_window_fits(operation, "filter", problem.r, problem.dilation.h,
                    problem.h + problem.padding.top + problem.padding.bottom, "rows");
  check_window_fits(operation, "filter", problem.s, problem.dilation.w,
                    problem.w + problem.padding.left + problem.padding.right, "columns");
  check_pool(problem);
  fill(problem.x_strides, problem.x_extents());
  fill(problem.w_strides, problem.w_extents());
  fill(problem.y_strides, problem.y_extents());
  check_layout(operation, "x", problem.x_extents(), problem.x_strides);
  check_layout(operation, "w", problem.w_extents(), problem.w_strides);
  check_output_layout(operation, "y", problem.y_extents(), problem.y_strides);
  return problem;
}

}  // namespace plumb
