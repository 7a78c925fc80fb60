// Answers that are asked for again with each launch of a plan.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace plumb::cuda {

/// What was last asked for, and the answers: making one takes up to a millisecond. Of one thread.
template <class Asked, class Answer>
class Remembered {
 public:
  template <class Make>
  Answer get(const Asked& asked, Make&& make) {
    for (const auto& [known, answer] : known_)
      if (known == asked) return answer;
    const Answer answer = make();
    if (known_.size() < most)
      known_.emplace_back(asked, answer);
    else
      known_[oldest_++ % most] = {asked, answer};
    return answer;
  }

 private:
  static constexpr std::size_t most = 32;
  std::vector<std::pair<Asked, Answer>> known_;
  std::size_t oldest_ = 0;
};

}  // namespace plumb::cuda
