// A signal handler that writes a line that was made before.
#include "crash_report.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace plumb::app {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr char prefix[] = "plumb: crashed; to run the same again:\n  ";

char line[4096];
std::atomic<std::size_t> length{0};
struct sigaction before[std::size(signals)];

void put_back() noexcept {
  for (std::size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before[i], nullptr);
}

/// Only calls that a handler may make. What failed fails again at its return, and goes to whoever
/// was there before.
void report(int) {
  const std::size_t bytes = length.load();
  if (bytes > 0 && write(STDERR_FILENO, prefix, sizeof prefix - 1) > 0 &&
      write(STDERR_FILENO, line, bytes) > 0) {
  }
  put_back();
}

}  // namespace

CrashReport::CrashReport() {
  struct sigaction action {};
  action.sa_handler = report;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &action, &before[i]);
}

CrashReport::~CrashReport() {
  put_back();
  length = 0;
}

void CrashReport::at(std::string_view doing) noexcept {
  const std::size_t bytes = std::min(doing.size(), sizeof line - 1);
  length = 0;
  std::memcpy(line, doing.data(), bytes);
  line[bytes] = '\n';
  length = bytes + 1;
}

}  // namespace plumb::app
