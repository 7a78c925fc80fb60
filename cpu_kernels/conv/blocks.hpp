// The CPU's convolutions share the workspace's limit, and how many threads it has room for, when
// they cut a problem for threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu_kernels/primitives/ceil_div.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// The workspace of one launch, for all threads together, is at most this large.
inline constexpr std::size_t workspace_limit_bytes = std::size_t{64} << 20;

/// Returns `bytes` rounded up to where the next part of a workspace may begin.
inline std::size_t padded(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, 256));
}

/// Returns how many of the `wanted` threads have room in the workspace, beside what all share.
inline std::int64_t threads_with_room(std::int64_t wanted, std::size_t shared_bytes,
                                      std::size_t bytes_of_thread) {
  const auto room =
      static_cast<std::int64_t>((workspace_limit_bytes - shared_bytes) / bytes_of_thread);
  return std::clamp<std::int64_t>(wanted, 1, room);
}

/// Returns the products that take as long as turning sums of rows into outputs whose neighbours in
/// memory are other filters' (NHWC).
inline double products_of_turning(const ConvProblem& problem) {
  constexpr double turned = 20;
  if (problem.y_strides[3] == 1 || problem.q() == 1) return 0;
  return turned * static_cast<double>(problem.n * problem.k) *
         static_cast<double>(problem.p() * problem.q());
}

/// Returns the products that take as long as storing outputs whose neighbours in memory are no
/// filter's: those of one phase of a stride (backward data).
inline double products_of_scattering(const ConvProblem& problem) {
  constexpr double scattered = 40;
  const Strides& y = problem.y_strides;
  if (y[3] == 1 || y[1] == 1 || problem.q() == 1) return 0;
  return scattered * static_cast<double>(problem.n * problem.k) *
         static_cast<double>(problem.p() * problem.q());
}

/// Returns the products that take as long as widening the rows of x and rounding those of y where
/// elements have two bytes: 20 ns a row of 14 or 28, most of it in the loop over what is left of
/// whole vectors.
inline double products_of_conversion(const ConvProblem& problem) {
  constexpr double of_a_row = 1800;
  if (size_in_bytes(problem.dtype) != 2) return 0;
  return of_a_row * static_cast<double>(problem.n) *
         static_cast<double>(problem.c * problem.d * problem.h +
                             problem.k * problem.z() * problem.p());
}

/// Returns `max`, or 1 where the problem is so small that one thread is done before another would
/// have woken.
inline int worthwhile_threads(const ConvProblem& problem, int max) {
  constexpr double flop_of_one_thread = 5e5;
  return problem.flop() > flop_of_one_thread ? max : 1;
}

/// Returns how many slots of a workspace, one a thread, a launch of so many tasks has: as many as
/// are worthwhile and have room beside what all threads share.
inline int slots_of(const ConvProblem& problem, const DeviceInfo& device, std::int64_t tasks,
                    std::size_t shared_bytes, std::size_t slot_bytes) {
  const int threads = worthwhile_threads(problem, std::max(device.units, 1));
  return static_cast<int>(
      threads_with_room(std::min<std::int64_t>(threads, tasks), shared_bytes, slot_bytes));
}

/// Says whether the filters alone take more than a workspace has. A double cannot overflow.
template <class Real>
bool filters_exceed_workspace(const ConvProblem& problem) {
  return static_cast<double>(problem.k) * static_cast<double>(problem.terms()) * sizeof(Real) >
         double{workspace_limit_bytes};
}

}  // namespace plumb
