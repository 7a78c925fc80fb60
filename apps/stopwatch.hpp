// Wall-clock time on the host.
#pragma once

#include <chrono>
#include <utility>

namespace plumb::app {

class Stopwatch {
 public:
  /// Seconds since it was made or last read by lap().
  double lap() {
    const Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(lap_, now)).count();
  }
  /// Seconds since it was made.
  double total() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), lap_ = start_;
};

}  // namespace plumb::app
