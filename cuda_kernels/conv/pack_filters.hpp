// Filters copied together.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb::cuda {

/// Writes f32 filters, whatever their strides, dense: K C/G R S, on the packing's stream. Their
/// offsets fit 32 bits.
void pack_filters(const FilterPacking& packing);

}  // namespace plumb::cuda
