// What the convolutions of the CPU share when they cut a problem into blocks for threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cpu_kernels/primitives/ceil_div.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// Of one launch, all threads together.
inline constexpr std::size_t workspace_limit_bytes = std::size_t{64} << 20;

/// Bytes up to where the next part of a workspace may begin.
inline std::size_t padded(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, 256));
}

/// Threads, of those wanted, that the workspace has room for beside what they share.
inline std::int64_t threads_with_room(std::int64_t wanted, std::size_t shared_bytes,
                                      std::size_t bytes_of_thread) {
  const auto room =
      static_cast<std::int64_t>((workspace_limit_bytes - shared_bytes) / bytes_of_thread);
  return std::clamp<std::int64_t>(wanted, 1, room);
}

/// Runs of filters, counted through all panels.
struct Runs {
  std::int64_t begin, end;
};

/// The next runs for a thread: a part of what is left, so that all are done at the same time, and
/// of whole panels as long as there are more than `least`.
inline Runs take_runs(std::atomic<std::int64_t>& taken, std::int64_t runs,
                      std::int64_t runs_of_panel, std::int64_t least, int threads) {
  std::int64_t begin = taken.load(std::memory_order_relaxed), end;
  do {
    const std::int64_t left = runs - begin, part = std::max(left / (2 * threads), least);
    end = begin + std::min(part, left);
    if (part > least && end / runs_of_panel > begin / runs_of_panel) end -= end % runs_of_panel;
  } while (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {begin, end};
}

/// Threads that are worth while: with less to do one is done before another would have woken.
inline int worthwhile_threads(const ConvProblem& problem, int most) {
  constexpr double flop_of_one_thread = 5e5;
  return problem.flop() > flop_of_one_thread ? most : 1;
}

}  // namespace plumb
