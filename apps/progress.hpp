// A progress bar on a terminal, and nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace plumb::app {

/// What a bar shows: `label [=====     ]  50% ETA 0:42`. The time that is left (m:ss, or h:mm:ss)
/// is the time so far in proportion, and stands there once some of the work is done and a second
/// has passed. A total of 0 or less is work that is done.
std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total,
                          double elapsed_seconds);

/// Drawn on stderr while it lives, and wiped at its end; silent where stderr is no terminal.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of `total` is done.
  void show(std::int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  std::int64_t total_;
  bool on_terminal_;
  bool drawn_ = false;
  Clock::time_point begin_, next_;
};

}  // namespace plumb::app
