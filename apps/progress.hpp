// A progress bar on a terminal, and nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace plumb::app {

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
  Clock::time_point next_;
};

}  // namespace plumb::app
