// The cache of plans: a short list, the latest used last.
#include "plan_cache.hpp"

#include <algorithm>

namespace plumb {

std::shared_ptr<const PlannedConv> PlanCache::find(const ConvProblem& problem,
                                                   const ConvOptions& options) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(), [&](const auto& entry) {
    return entry->problem == problem && entry->options == options;
  });
  if (found == entries_.rend()) return nullptr;
  std::rotate(std::prev(found.base()), found.base(), entries_.end());
  return entries_.back();
}

void PlanCache::insert(std::shared_ptr<const PlannedConv> planned) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() == capacity) entries_.erase(entries_.begin());
  entries_.push_back(std::move(planned));
}

void PlanCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace plumb
