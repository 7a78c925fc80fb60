// How tensors lie in memory, as other libraries want to know it.
#pragma once

#include "plumb/types.hpp"

namespace plumb {

/// Dense in this layout, to the last stride, even along extents of one: what is part of a larger
/// tensor may begin at any element, and these libraries want aligned memory.
inline bool lies_in(Layout layout, const Extents& extents, const Strides& strides) {
  return strides == strides_for(layout, extents);
}

}  // namespace plumb
