// How tensors lie in memory, as other libraries want to know it.
#pragma once

#include "plumb/types.hpp"

namespace plumb {

/// Dense in this layout. Strides along extents of one have no say.
inline bool lies_in(Layout layout, const Extents& extents, const Strides& strides) {
  const Strides dense = strides_for(layout, extents);
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && strides[i] != dense[i]) return false;
  return true;
}

}  // namespace plumb
