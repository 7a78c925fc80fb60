// How many tiles cover an extent.
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// Returns how many tiles of `tile` cover `extent`, which is at least 1.
constexpr std::int64_t ceil_div(std::int64_t extent, std::int64_t tile) {
  return (extent - 1) / tile + 1;
}

}  // namespace plumb::cuda
