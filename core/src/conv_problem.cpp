// Sizes of a convolution, and the check that every problem passes before anything is planned.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "overlap.hpp"
#include "plumb/conv.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "convolution: " + message);
}

void require_at_least(std::int64_t minimum, std::int64_t value, const char* name) {
  if (value < minimum) refuse(fmt::format("{} is {}; expected at least {}", name, value, minimum));
  // Keeps every sum of a few of these far from overflow.
  constexpr std::int64_t limit = std::int64_t{1} << 48;
  if (value > limit) refuse(fmt::format("{} is {}; at most 2^48 is possible", name, value));
}

std::int64_t output_extent(std::int64_t input, std::int64_t before, std::int64_t after,
                           std::int64_t filter, std::int64_t dilation, std::int64_t stride) {
  const std::int64_t room = input + before + after - dilation * (filter - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void check_sizes(const ConvProblem& p) {
  require_at_least(0, p.n, "N");
  require_at_least(1, p.c, "C");
  require_at_least(1, p.h, "H");
  require_at_least(1, p.w, "W");
  require_at_least(1, p.k, "K");
  require_at_least(1, p.r, "R");
  require_at_least(1, p.s, "S");
  require_at_least(1, p.groups, "groups");
  require_at_least(1, p.stride.h, "stride.h");
  require_at_least(1, p.stride.w, "stride.w");
  require_at_least(1, p.dilation.h, "dilation.h");
  require_at_least(1, p.dilation.w, "dilation.w");
  require_at_least(0, p.padding.top, "padding.top");
  require_at_least(0, p.padding.left, "padding.left");
  require_at_least(0, p.padding.bottom, "padding.bottom");
  require_at_least(0, p.padding.right, "padding.right");
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

/// dilation * (filter - 1) + 1, refused where it does not fit into the padded image.
void check_filter_fits(std::int64_t filter, std::int64_t dilation, std::int64_t padded,
                       const char* side) {
  if ((filter - 1) > (padded - 1) / dilation)
    refuse(fmt::format("a filter of {} {} at dilation {} does not fit into {} padded {}", filter,
                       side, dilation, padded, side));
}

void fill_or_check(Strides& strides, const Extents& extents, const char* tensor) {
  element_count(extents);
  if (strides.empty()) strides = dense_strides(extents);
  if (strides.rank() != 4)
    refuse(fmt::format("{} has {} strides; expected 4", tensor, strides.rank()));
  // Every offset is a sum of four products that must stay below 2^60.
  for (int i = 0; i < 4; ++i) {
    const std::int64_t steps = std::max<std::int64_t>(extents[i] - 1, 0);
    const std::int64_t stride = strides[i];
    constexpr std::int64_t limit = std::int64_t{1} << 58;
    if (stride > limit || stride < -limit || (steps > 0 && std::abs(stride) > limit / steps))
      refuse(fmt::format("{} has stride {} over extent {}; offsets would pass 2^58", tensor, stride,
                         extents[i]));
  }
}

}  // namespace

bool overlaps_itself(const Extents& extents, const Strides& strides) {
  // Sorted by stride, each dimension must step beyond all that the smaller ones can reach.
  std::vector<int> order;
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::abs(strides[a]) < std::abs(strides[b]); });
  std::int64_t reach = 0;
  for (const int i : order) {
    if (std::abs(strides[i]) <= reach) return true;
    reach += std::abs(strides[i]) * (extents[i] - 1);
  }
  return false;
}

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
  check_filter_fits(problem.r, problem.dilation.h,
                    problem.h + problem.padding.top + problem.padding.bottom, "rows");
  check_filter_fits(problem.s, problem.dilation.w,
                    problem.w + problem.padding.left + problem.padding.right, "columns");
  check_pool(problem);
  fill_or_check(problem.x_strides, problem.x_extents(), "x");
  fill_or_check(problem.w_strides, problem.w_extents(), "w");
  fill_or_check(problem.y_strides, problem.y_extents(), "y");
  if (overlaps_itself(problem.y_extents(), problem.y_strides))
    refuse(fmt::format("y of {} with strides {} overlaps itself", to_string(problem.y_extents()),
                       to_string(problem.y_strides)));
  return problem;
}

}  // namespace plumb
