// As tensor_map.hpp's encode_im2col(), of f32 whose bits are copied.
#pragma once

#include <cuda.h>

#include "cuda_kernels/primitives/im2col_map.hpp"

namespace plumb::cuda {

/// Describes a tensor of f32 at `address` to the copy engine, which swizzles by 128 bytes and
/// rounds nothing. Returns false where this driver has no such function or does not take the
/// values.
bool encode_im2col_of_f32(CUtensorMap& map, const Im2colMap& of, const void* address);

}  // namespace plumb::cuda
