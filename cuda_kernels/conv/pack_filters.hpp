// Kernels that index filters densely have them copied here first.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb::cuda {

/// Writes f32 filters, whatever their strides, as dense K C/G R S, on the packing's stream. The
/// offsets of the filters fit 32 bits.
void pack_filters(const FilterPacking& packing);

}  // namespace plumb::cuda
