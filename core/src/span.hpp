// How much memory the elements of a tensor reach over, whatever its strides.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "plumb/types.hpp"

namespace plumb {

/// Elements from the lowest to the highest address that the strides reach, and how far the lowest
/// lies below the element of index zero.
struct Span {
  std::int64_t elements = 0, below = 0;
};

inline Span span_of(const Extents& extents, const Strides& strides) {
  if (element_count(extents) == 0) return {};
  Span span{.elements = 1};
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t reach = (extents[i] - 1) * strides[i];
    span.elements += std::abs(reach);
    if (reach < 0) span.below -= reach;
  }
  return span;
}

}  // namespace plumb
