// What a program that dies in a kernel says last.
#pragma once

#include <string_view>

namespace plumb::app {

/// While it lives, a process that ends by SIGSEGV, SIGBUS, SIGILL or SIGFPE writes to standard
/// error what it was at. One at a time; the handlers before it are put back at its end.
class CrashReport {
 public:
  CrashReport();
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

  /// Copied, as far as there is room; a line.
  void at(std::string_view doing) noexcept;
};

}  // namespace plumb::app
