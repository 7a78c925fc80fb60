// Random numbers that are the same with every standard library: the engine is specified bit for
// bit, the standard's distributions and std::shuffle are not.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace plumb::app {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// An integer of [0, bound), each as likely as the others; bound at least 1.
  std::uint64_t below(std::uint64_t bound);
  /// Standard normal (Box & Muller 1958).
  double normal();
  /// 0 to count - 1 in random order (Fisher & Yates, as in Knuth's algorithm P).
  std::vector<std::uint32_t> permutation(std::uint32_t count);

 private:
  std::mt19937_64 engine_;
};

}  // namespace plumb::app
