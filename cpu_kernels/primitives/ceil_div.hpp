// Quotients of numbers that are not negative are rounded up.
#pragma once

#include <cstdint>

namespace plumb {

/// Returns ceil(a / b).
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace plumb
