// Tensor maps for the copy engine are made by the driver, which is asked for the function at run
// time: nothing here links with the driver's library.
#pragma once

#include <cuda.h>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "plumb/types.hpp"

namespace plumb::cuda {

/// Describes a tensor of `dtype` at `address` to the copy engine; it swizzles by 128 bytes, and
/// rounds f32 to TF32. Returns false where this driver has no such function or does not take the
/// values.
bool encode_im2col(CUtensorMap& map, const Im2colMap& of, DType dtype, const void* address);

}  // namespace plumb::cuda
