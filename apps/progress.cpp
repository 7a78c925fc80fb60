// A progress bar on a terminal.
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace plumb::app {

using namespace std::chrono_literals;

// Work that is over in a moment shows no bar.
ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(total),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + 300ms) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::int64_t done) {
  if (!on_terminal_ || Clock::now() < next_) return;
  constexpr std::int64_t width = 30;
  const auto filled = static_cast<std::size_t>(width * done / total_);
  std::fputs(fmt::format("\r{} [{:=<{}}{:{}}] {:3}%\033[K", label_, "", filled, "",
                         width - static_cast<std::int64_t>(filled), 100 * done / total_)
                 .c_str(),
             stderr);
  drawn_ = true;
  next_ = Clock::now() + 100ms;
}

}  // namespace plumb::app
