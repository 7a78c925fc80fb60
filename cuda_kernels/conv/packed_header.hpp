// A header precedes a group's packed filters where products are scaled. The layout of packed
// filters is chosen for a large batch.
#pragma once

#include <cstdint>

namespace plumb::cuda {

inline constexpr int max_group_filters = 64;

/// The layout is chosen for this many images, because packed filters serve any batch.
inline constexpr std::int64_t large_batch = 1 << 14;

struct PackedHeader {
  float scales[max_group_filters];   ///< factors that undo the scaling of the sums
  int exponents[max_group_filters];  ///< of the scales; no_exponent for a filter without values
  int flags[max_group_filters];      ///< WindowFlags
};
inline constexpr int no_exponent = 1 << 20;
inline constexpr int packed_header_bytes = 1024;
static_assert(sizeof(PackedHeader) <= packed_header_bytes);

}  // namespace plumb::cuda
