// A panel is the part of the im2col matrix that is packed at a time. README.md draws it.
#pragma once

#include <cstdint>

namespace plumb {

/// The most outputs of a panel: three tiles with AVX-512, nine with AVX2. A panel that lies in an
/// image has more, because longer pieces of its rows come from memory faster.
inline constexpr std::int64_t panel_positions = 144, image_positions = 224;

/// The input of neighbouring outputs, all images numbered through: [term][output] for a block of
/// terms.
struct Panel {
  std::int64_t group;
  std::int64_t first, count;       ///< outputs, numbered over all images
  std::int64_t first_term, terms;  ///< terms, in the order c r s
  std::int64_t step;               ///< from one term to the next: `count` + max_lanes or more
};

}  // namespace plumb
