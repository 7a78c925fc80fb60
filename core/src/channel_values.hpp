// A bias as images of it, and outputs that become the bias of their channels.
#pragma once

#include "plumb/backend.hpp"

namespace plumb {

/// One value for each channel, or zeros, as images of these extents would have them.
ConstTensorView broadcast(const void* bias, DType dtype, const Extents& extents,
                          const DeviceId& device);

/// `to`, of rank 5, becomes the bias of its channels, or zero.
void fill(BackendQueue& queue, const TensorView& to, const void* bias);

}  // namespace plumb
