// How filters are cut into terms, and what windows fit.
#include "cuda_kernels/common/windows.hpp"

#include <fmt/format.h>

namespace plumb::cuda {

WindowTerms::WindowTerms(const ConvProblem& problem)
    : shifts(problem.q() > 1 && problem.stride.w > 1 ? 1 : 2) {
  const auto taps = static_cast<int>(problem.s) + shifts - 1, rows = static_cast<int>(problem.r);
  columns = taps <= 2 ? 2 : taps <= 4 ? 4 : taps <= 8 ? 8 : 16;
  segment_rows = columns < 8 ? 8 / columns : 1;
  segments = columns > 8 ? 2 * rows : (rows - 1) / segment_rows + 1;
  // In (rows, columns), put together by the kernel once the pitch is known.
  second = columns > 8 ? 0 : segment_rows;
  pair = columns > 8 ? 1 : 2 * segment_rows;
}

WindowTerms WindowTerms::in_pairs(const ConvProblem& problem) {
  WindowTerms terms(problem);
  terms.columns = static_cast<int>(tiles_of(problem.s + terms.shifts - 1, 2) * 2);
  terms.segment_rows = 1;
  terms.segments = static_cast<int>(problem.r);
  terms.second = terms.pair = 0;
  return terms;
}

std::int64_t stream_slots(const ConvProblem& problem, const WindowTerms& terms) {
  return tiles_of(problem.c * problem.r * (terms.columns / 2), slot_pairs);
}

RowLanes::RowLanes(std::int64_t pitch) {
  const auto turns_of = [&](int some) {
    return static_cast<int>(tiles_of(pitch / 2, std::int64_t{pairs_at_once} << some));
  };
  const auto price = [&](int some) { return (5 * turns_of(some) + 2) << some; };
  for (const int some : {4, 3, 2})
    if (price(some) < price(bits)) bits = some;
  turns = turns_of(bits);
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

Support streams_fit(const ConvProblem& problem, const DeviceInfo& device, std::int64_t groups) {
#ifdef PLUMB_CUDA_SM90A
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
  if (!compiled)
    return {Reason::device_limit, "this build holds no code for sm_90a; expected some, with wgmma"};
  if (device.compute_major != 9)
    return {Reason::device_limit, fmt::format("compute capability {}.{}; expected 9.0, with wgmma",
                                              device.compute_major, device.compute_minor)};
  if (groups > device.units)
    return {Reason::geometry, fmt::format("{} groups of {} filters; expected at most {}", groups,
                                          tiles_of(problem.k, groups), device.units)};
  return {};
}

std::size_t WindowTiles::bytes() const {
  return window_control_bytes + w_bytes + x_bytes + raw_bytes + y_bytes + table_bytes;
}

}  // namespace plumb::cuda
