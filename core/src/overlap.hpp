// Whether a strided output would write an element twice.
#pragma once

#include "plumb/types.hpp"

namespace plumb {

/// True where two indices may share memory. Stricter than need be for interleaved strides that no
/// layout uses.
bool overlaps_itself(const Extents& extents, const Strides& strides);

}  // namespace plumb
