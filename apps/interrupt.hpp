// SIGINT and SIGTERM as a question that work asks between its items.
#pragma once

#include <csignal>

namespace plumb::app {

/// While it lives, the first SIGINT or SIGTERM sets a flag, and the next one ends the program at
/// once, as it would without this. A signal that the program was started with ignored stays so. One
/// at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Whether one has come: the item under way is finished or dropped, and no other is begun.
  bool requested() const noexcept;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace plumb::app
