// Random numbers of the tests of operators' kernels.
#pragma once

#include <cstdint>
#include <random>

namespace plumb_test::emulation {

using Random = std::mt19937;

inline std::int64_t draw(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

}  // namespace plumb_test::emulation
