// What convolution algorithms ask of a device and of tensors: shared memory, and vectors.
#pragma once

#include <cstddef>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Says yes where a block of the device may have as many bytes. A double cannot overflow here.
Support fits_shared_memory(double bytes, const DeviceInfo& device);

/// The widest aligned vectors, of 4, 2 or 1 elements, that each row of a tensor can be divided
/// into. The width is 1 where a row's elements do not lie side by side.
int row_vector(const void* data, const Extents& extents, const Strides& strides,
               std::int64_t element_bytes);

}  // namespace plumb::cuda
