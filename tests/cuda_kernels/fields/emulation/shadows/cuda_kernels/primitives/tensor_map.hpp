// Tensor maps, emulated: what a map is encoded from.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"
#include "plumb/types.hpp"

struct CUtensorMap {
  plumb::cuda::TiledMap of;
  const char* address;
  int element_bytes;
};

namespace plumb::cuda {

inline bool encode_tiled(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address) {
  map = {of, static_cast<const char*>(address), dtype == DType::f64 ? 8 : 4};
  bool taken = reinterpret_cast<std::uintptr_t>(address) % tensor_map_alignment == 0 &&
               of.box[0] * map.element_bytes % tensor_map_alignment == 0;
  for (int i = 0; i < TiledMap::rank; ++i) {
    taken = taken && of.extent[i] > 0 && of.box[i] > 0 && of.box[i] <= max_tiled_box;
    if (i > 0)
      taken = taken && of.stride_bytes[i] > 0 && of.stride_bytes[i] <= max_tensor_map_stride &&
              of.stride_bytes[i] % tensor_map_alignment == 0;
  }
  return taken;
}

inline bool has_copy_engine(const void*) { return true; }

}  // namespace plumb::cuda
