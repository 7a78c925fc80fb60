// What another library prepared for a problem, kept for as long as the process lives.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb {

/// Keyed by the problem and a number of the user's. Nothing is ever dropped: a plan may come back
/// to its entry at any time, and a launch must not prepare anything. Safe to use from several
/// threads; one prepares at a time.
template <class Entry>
class ProblemCache {
 public:
  /// The entry, which `make()` makes where there is none.
  template <class Make>
  std::shared_ptr<const Entry> get(int key, const ConvProblem& problem, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Kept& kept) {
      return kept.key == key && kept.problem == problem;
    });
    if (found == kept_.rend()) {
      kept_.push_back({key, problem, std::make_shared<const Entry>(make())});
    } else {
      // The latest used last, where the next search begins.
      std::rotate(std::prev(found.base()), found.base(), kept_.end());
    }
    return kept_.back().entry;
  }

 private:
  struct Kept {
    int key;
    ConvProblem problem;
    std::shared_ptr<const Entry> entry;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace plumb
