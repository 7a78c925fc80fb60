// What stands in front of a group's packed filters, for products that are scaled, and what their
// layout is chosen for.
#pragma once

#include <cstdint>

namespace plumb::cuda {

inline constexpr int max_group_filters = 64;

/// Images: packed filters serve any batch.
inline constexpr std::int64_t large_batch = 1 << 14;

struct PackedHeader {
  float scales[max_group_filters];   ///< what sums are multiplied with to undo them
  int exponents[max_group_filters];  ///< of the scales; of a filter without a value, no_exponent
  int flags[max_group_filters];      ///< WindowFlags
};
inline constexpr int no_exponent = 1 << 20;
inline constexpr int packed_header_bytes = 1024;
static_assert(sizeof(PackedHeader) <= packed_header_bytes);

}  // namespace plumb::cuda
