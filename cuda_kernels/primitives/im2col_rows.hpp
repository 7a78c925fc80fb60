// An im2col map whose copies are rows of a matrix. The copy engine takes some three clocks for a
// pixel of 128 bytes in im2col mode, and less in tiled mode.
#pragma once

#include <optional>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"

namespace plumb::cuda {

/// Returns the pixels of all images as rows, channels fastest, where filters have one tap, each
/// pixel of the tensor is one of the box, in order, and they are equally far apart. A copy is a box
/// of as many pixels as the map's, and its corner is a pixel's number.
inline std::optional<TiledMap> rows_of_pixels(const Im2colMap& map, int taps) {
  if (taps > 1) return std::nullopt;
  const std::int64_t apart = map.axis[0].stride_bytes;
  std::int64_t pixels = 1;
  for (int i = 0; i < map.axes; ++i) {
    const Im2colAxis& axis = map.axis[i];
    if (axis.lower != 0 || axis.upper != 0 || axis.step != 1) return std::nullopt;
    if (axis.extent > 1 && axis.stride_bytes != pixels * apart) return std::nullopt;
    pixels *= axis.extent;
  }
  if (map.images > 1 && map.image_stride_bytes != pixels * apart) return std::nullopt;
  pixels *= map.images;
  constexpr std::int64_t max_pixels = 1 << 30;
  if (pixels > max_pixels || map.pixels > max_tiled_box) return std::nullopt;
  TiledMap rows;
  rows.extent[0] = map.channels_of_tensor, rows.extent[1] = pixels;
  for (std::int64_t& stride : rows.stride_bytes) stride = apart;
  rows.box[0] = map.channels, rows.box[1] = map.pixels;
  return rows;
}

}  // namespace plumb::cuda
