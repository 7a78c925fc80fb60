// Filters are cut into terms, and problems that windows do not fit are refused.
#include "cuda_kernels/few_channels/windows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda_kernels/conv/conv_support.hpp"

namespace plumb::cuda {

WindowDepth::WindowDepth(const ConvProblem& problem) {
  if (!problem.has_depth()) {
    planes = outputs = problem.n;
    return;
  }
  of_volumes = true;
  volumes = problem.n, planes = problem.d, outputs = problem.z(), taps = problem.t;
  before = problem.padding.front;
  // A stride to no second plane and a dilation of one tap may be any number.
  stride = outputs > 1 ? problem.stride.d : 0;
  step = taps > 1 ? problem.dilation.d : std::max<std::int64_t>(stride, 1);
}

ConvProblem plane_of(const ConvProblem& problem) {
  if (!problem.has_depth()) return problem;
  ConvProblem plane = problem;
  plane.n = problem.n * problem.z();
  plane.d = plane.t = 1;
  plane.stride.d = plane.dilation.d = 1;
  plane.padding.front = plane.padding.back = 0;
  plane.boundary.d = Boundary::zeros;
  const auto of_plane = [](const Strides& strides) -> Strides {
    return {strides[2], strides[1], strides[3], strides[4]};
  };
  plane.x_strides = of_plane(problem.x_strides);
  plane.y_strides = of_plane(problem.y_strides);
  plane.w_strides = {};  // the kernels' filters are packed
  return plane;
}

WindowTerms::WindowTerms(const ConvProblem& problem)
    : shifts(problem.q() > 1 && problem.stride.w > 1 ? 1 : 2) {
  const auto taps = static_cast<int>(problem.s) + shifts - 1, rows = static_cast<int>(problem.r);
  columns = taps <= 2 ? 2 : taps <= 4 ? 4 : taps <= 8 ? 8 : 16;
  segment_rows = columns < 8 ? 8 / columns : 1;
  segments = columns > 8 ? 2 * rows : (rows - 1) / segment_rows + 1;
  // These are in rows; the kernel makes elements of them once the pitch is known.
  second = columns > 8 ? 0 : segment_rows;
  pair = columns > 8 ? 1 : 2 * segment_rows;
}

WindowTerms WindowTerms::in_pairs(const ConvProblem& problem) {
  WindowTerms terms(problem);
  terms.columns = static_cast<int>(ceil_div(problem.s + terms.shifts - 1, 2) * 2);
  terms.segment_rows = 1;
  terms.segments = static_cast<int>(problem.r);
  terms.second = terms.pair = 0;
  return terms;
}

FilterStrips::FilterStrips(const ConvProblem& problem, const WindowKernelConfig& unit,
                           const WindowCosts& costs) {
  // These bytes are upper limits: of filters that stay in shared memory, and otherwise of a filter
  // strip, which is a k tile then.
  constexpr double resident = 96 << 10, filter_strip_bytes = 24 << 10;
  const auto rows = static_cast<int>(problem.r);
  const auto column_pairs =
      product_channels(problem) * (WindowTerms::in_pairs(problem).columns / 2);
  const auto stride = static_cast<int>(problem.stride.h);
  const double k_step_bytes = 32.0 * unit.filter_n8_tiles * costs.k_step_bytes;
  double least = 0;
  length = 0;
  // A row of outputs with no other below it has no row to share its reads with.
  const int longest = problem.p() > 1 && unit.fragments > 1 ? (rows - 1) / stride + 1 : 1;
  for (int some = 1; some <= longest; ++some) {
    // A length is left out where a shorter one covers the rows from as few starts.
    const int between = some > 1 ? std::min(stride, rows) : 1;
    const int rows_between = (rows - 1) / between + 1, parts = (rows_between - 1) / some + 1;
    if (some > 1 && (rows_between - 1) / parts + 1 < some) continue;
    const auto filter_strips = static_cast<int>(ceil_div(column_pairs * between * parts, pairs));
    if (some > 1 && some * k_step_bytes > filter_strip_bytes &&
        filter_strips * some * k_step_bytes > resident)
      continue;
    // Time is in clocks of shared memory: the products read all filters, and the lanes of four
    // warps read rows of x. Products of warps by themselves take longer than their reads.
    const double of_product = unit.warpgroups ? 2 : 7;
    const double products =
        of_product * costs.mmas_of_k_step * unit.filter_n8_tiles * unit.fragments * some;
    const double reads = 10.5 * costs.element_bytes * (some + unit.fragments - 1);
    if (const double time = filter_strips * (products + reads); length == 0 || time < least) {
      least = time;
      length = some, step = some > 1 ? stride : 1, parities = between, starts = between * parts;
      count = filter_strips;
      reach = between + step * (parts * some - 1);
    }
  }
}

RowLanes::RowLanes(std::int64_t pitch, bool copied) {
  const std::int64_t at_once = copied ? 1 : 2 * pairs_at_once;
  const auto turns_of = [&](int some) {
    return static_cast<int>(ceil_div(pitch, at_once << some));
  };
  const auto price = [&](int some) { return (5 * turns_of(some) + (copied ? 25 : 2)) << some; };
  for (const int some : {4, 3, 2})
    if ((some > 2 || !copied) && price(some) < price(bits)) bits = some;
  turns = turns_of(bits);
}

bool input_in_pairs(const ConvProblem& problem, const void* x) {
  return problem.padding.left % 2 == 0 && problem.w % 2 == 0 &&
         row_vector(x, problem.x_extents(), problem.x_strides, size_in_bytes(problem.dtype)) >= 2;
}

Support windows_fit(const ConvProblem& problem) {
  if (problem.groups != 1)
    return {Reason::geometry, fmt::format("{} groups; expected 1", problem.groups)};
  if ((problem.r > 1 && problem.dilation.h != 1) || (problem.s > 1 && problem.dilation.w != 1))
    return {Reason::geometry,
            fmt::format("dilation {}x{}; expected none", problem.dilation.h, problem.dilation.w)};
  if (problem.q() > 1 && problem.stride.w > 2)
    return {Reason::geometry,
            fmt::format("a stride of {} columns; expected 1 or 2", problem.stride.w)};
  if (problem.pool != Pool::none && problem.stride.w > 1)
    return {Reason::geometry,
            fmt::format("pools at a stride of {} columns; expected 1", problem.stride.w)};
  if (problem.s > widest_filter)
    return {Reason::geometry,
            fmt::format("filters {} wide; expected at most {}", problem.s, widest_filter)};
  return {};
}

bool products_by_warpgroups(int n8_tiles, Staging staging, const DeviceInfo& device) {
#ifdef PLUMB_CUDA_SM90A
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
  // For eight columns wgmma takes 13 clocks for four warps' step, mma.sync 6.2 to 7 (an H200).
  return compiled && n8_tiles > 1 && staging == Staging::bulk && device.compute_major == 9;
}

Support streams_fit(const ConvProblem& problem, const DeviceInfo& device, std::int64_t groups) {
  if (groups > device.units)
    return {Reason::geometry, fmt::format("{} groups of {} filters; expected at most {}", groups,
                                          ceil_div(problem.k, groups), device.units)};
  return {};
}

std::size_t WindowTiles::bytes() const {
  return window_control_bytes + w_bytes + x_bytes + raw_bytes + y_bytes + table_bytes;
}

}  // namespace plumb::cuda
