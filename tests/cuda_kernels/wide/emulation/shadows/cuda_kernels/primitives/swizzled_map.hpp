// Tensor maps of swizzled boxes, emulated.
#pragma once

#include "cuda_kernels/primitives/tensor_map.hpp"

namespace plumb::cuda {

inline bool encode_swizzled(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address,
                            bool rounds) {
  map = {{}, static_cast<const char*>(address), rounds, of, static_cast<int>(size_in_bytes(dtype))};
  bool taken = reinterpret_cast<std::uintptr_t>(address) % tensor_map_alignment == 0 &&
               of.box[0] * map.element_bytes == swizzle_row_bytes;
  for (int i = 0; i < TiledMap::rank; ++i) {
    taken = taken && of.extent[i] > 0 && of.extent[i] <= std::int64_t{1} << 32 && of.box[i] > 0 &&
            of.box[i] <= max_tiled_box;
    if (i > 0)
      taken = taken && of.stride_bytes[i] > 0 && of.stride_bytes[i] <= max_tensor_map_stride &&
              of.stride_bytes[i] % tensor_map_alignment == 0;
  }
  return taken;
}
inline bool encode_swizzled_tiles(CUtensorMap& map, const TiledMap& of, DType dtype,
                                  const void* address) {
  return encode_swizzled(map, of, dtype, address, dtype == DType::f32);
}
inline bool encode_swizzled_stores(CUtensorMap& map, const TiledMap& of, DType dtype,
                                   void* address) {
  return encode_swizzled(map, of, dtype, address, false);
}

}  // namespace plumb::cuda
