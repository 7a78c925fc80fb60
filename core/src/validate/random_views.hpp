// Strides drawn for validation.
#pragma once

#include "plumb/types.hpp"
#include "test_data.hpp"

namespace plumb {

/// Strides of a tensor: any order of dimensions, gaps, any of them mirrored, and, where
/// it is only read, broadcast along some (strides of zero) or overlapping itself as sliding rows
/// do. A dimension of one element may have any stride at all.
Strides random_strides(Random& random, const Extents& extents, bool written);

}  // namespace plumb
