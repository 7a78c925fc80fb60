// Filters copied together.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb::cuda {

/// Writes the call's f32 filters, whatever their strides, to `packed`: dense K C/G R S, on the
/// call's stream. Their offsets fit 32 bits.
void pack_filters(const ConvLaunch& call, float* packed);

}  // namespace plumb::cuda
