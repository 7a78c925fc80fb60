// Tensor maps in im2col mode and of swizzled boxes, emulated: what a map is encoded from, within
// the driver's limits.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/swizzle.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"
#include "plumb/types.hpp"

struct CUtensorMap {
  plumb::cuda::Im2colMap of;
  const char* address;
  bool rounds;  ///< f32 to TF32
  plumb::cuda::TiledMap tiled;
  int element_bytes;
};

namespace plumb::cuda {

inline bool encode_im2col(CUtensorMap& map, const Im2colMap& of, DType dtype, const void* address) {
  map = {of, static_cast<const char*>(address), dtype == DType::f32, {}, of.element_bytes};
  const auto aligned = [](std::int64_t bytes) {
    return bytes > 0 && bytes % tensor_map_alignment == 0 && bytes <= max_tensor_map_stride;
  };
  bool taken = reinterpret_cast<std::uintptr_t>(address) % tensor_map_alignment == 0 &&
               of.axes >= 1 && of.axes <= 3 &&
               of.channels * of.element_bytes == swizzle_row_bytes && of.pixels >= 1 &&
               of.pixels <= max_im2col_pixels && aligned(of.image_stride_bytes) && of.images >= 1 &&
               of.element_bytes == static_cast<int>(size_in_bytes(dtype));
  for (int i = 0; i < of.axes; ++i) {
    const Im2colAxis& axis = of.axis[i];
    const int corner = im2col_corner[of.axes];
    taken = taken && aligned(axis.stride_bytes) && axis.step >= 1 && axis.step <= max_im2col_step &&
            axis.lower >= -corner && axis.lower < corner && axis.upper >= -corner &&
            axis.upper < corner;
  }
  return taken;
}

}  // namespace plumb::cuda
