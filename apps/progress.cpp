// A progress bar on a terminal.
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace plumb::app {

using namespace std::chrono_literals;

namespace {

/// "0:42", "1:02:03".
std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9) + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total,
                          double elapsed_seconds) {
  constexpr double width = 30;
  const double share =
      total <= 0 ? 1 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(width * share);
  std::string line = fmt::format("{} [{:=<{}}{:{}}] {:3.0f}%", label, "", filled, "",
                                 static_cast<std::size_t>(width) - filled, std::floor(100 * share));
  if (share > 0 && share < 1 && elapsed_seconds >= 1)
    line += " ETA " + clock_text(elapsed_seconds / share * (1 - share));
  return line;
}

// Work that is over in a moment shows no bar.
ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(total),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      next_(begin_ + 300ms) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::int64_t done) {
  if (!on_terminal_ || Clock::now() < next_) return;
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::fputs(fmt::format("\r{}\033[K", progress_line(label_, done, total_, elapsed)).c_str(),
             stderr);
  drawn_ = true;
  next_ = Clock::now() + 100ms;
}

}  // namespace plumb::app
