// Random numbers that are the same with every standard library.
#include "training/random.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace plumb::app {

std::uint64_t Random::below(std::uint64_t bound) {
  // Values past the last whole multiple of the bound would favour the small remainders.
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t usable = largest - largest % bound;
  for (;;)
    if (const std::uint64_t value = engine_(); value < usable) return value % bound;
}

double Random::normal() {
  // 53 random bits each; the first in (0, 1], so that its logarithm is finite.
  const double u = static_cast<double>((engine_() >> 11) + 1) * 0x1p-53;
  const double v = static_cast<double>(engine_() >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

std::vector<std::uint32_t> Random::permutation(std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
  return order;
}

}  // namespace plumb::app
