// What of the im2col matrix is packed at a time.
#pragma once

#include <cstdint>

namespace plumb {

/// The most outputs of a panel: three tiles of 32 registers, nine of 16. Of one that lies in an
/// image more: longer pieces of its rows come from memory faster.
inline constexpr std::int64_t panel_positions = 144, image_positions = 224;

/// A piece of the matrix that im2col would make, [term][output]: for outputs that are neighbours
/// when all images are counted through, what they are multiplied with.
struct Panel {
  std::int64_t group;
  std::int64_t first, count;       ///< outputs, over all images
  std::int64_t first_term, terms;  ///< counted c r s
  std::int64_t step;               ///< from one term to the next, `count` + max_lanes or more
};

}  // namespace plumb
