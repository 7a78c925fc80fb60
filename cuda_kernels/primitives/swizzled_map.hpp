// As tensor_map.hpp's encode_tiled(), of boxes of 128-byte rows that are swizzled (swizzle.hpp).
#pragma once

#include <cuda.h>

#include "cuda_kernels/primitives/tiled_map.hpp"
#include "plumb/types.hpp"

namespace plumb::cuda {

/// Describes a tensor of f16, bf16 or f32 at `address` to the copy engine, which swizzles by 128
/// bytes, what the first axis of a box has, and rounds f32 to TF32. Boxes in shared memory begin at
/// whole swizzle atoms. Returns false where this driver has no such function or does not take the
/// values.
bool encode_swizzled_tiles(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address);

/// The same for stores, which copy the bits of f32.
bool encode_swizzled_stores(CUtensorMap& map, const TiledMap& of, DType dtype, void* address);

}  // namespace plumb::cuda
