// The handler does no more than a handler may: it sets a flag and writes a line.
#include "interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

namespace plumb::app {
namespace {

std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::string_view line =
    "\nplumb: interrupted; what is under way is finished first, a second time ends at once\n";

extern "C" void on_signal(int signal) {
  const int error = errno;
  if (came.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // when this handler has returned
  } else if (isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  }
  errno = error;
}

void take(int signal, struct sigaction& before) {
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(signal, &ours, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() {
  came = false;
  take(SIGINT, interrupt_before_);
  take(SIGTERM, terminate_before_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool InterruptScope::requested() const noexcept { return came; }

}  // namespace plumb::app
