// Tensor maps for the copy engine are made by the driver, which is asked for the function at run
// time: nothing here links with the driver's library.
#pragma once

#include <cuda.h>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"
#include "plumb/types.hpp"

namespace plumb::cuda {

/// Describes a tensor of `dtype` at `address` to the copy engine; it swizzles by 128 bytes, and
/// rounds f32 to TF32. Returns false where this driver has no such function or does not take the
/// values.
bool encode_im2col(CUtensorMap& map, const Im2colMap& of, DType dtype, const void* address);

/// Describes a tensor of f32 or f64 at `address` to the copy engine, which copies its bits. Returns
/// false where this driver has no such function or does not take the values.
bool encode_tiled(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address);

/// Whether the device runs code of `kernel` that was compiled for the copy engine's instructions:
/// code for an older architecture, which is compiled anew for a newer device, has none.
bool has_copy_engine(const void* kernel);

}  // namespace plumb::cuda
