// What the copy engine is told to read a convolution's input by (cuTensorMapEncodeIm2col, CUDA
// driver interface; PTX ISA, "Im2col mode").
//
// The tensor is N (D) (H) W C with channels side by side. Along each spatial axis a box leads from
// `lower` to extent - 1 + `upper`, both included. A copy begins at a pixel of the box and visits
// `pixels` of them, w fastest, then h, d and n, each axis `step` apart; to each it adds the offsets
// of a tap, and writes `channels` of that pixel. What lies outside the tensor is written as zeros.
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// One spatial axis, from the innermost (w) on.
struct Im2colAxis {
  std::int64_t extent = 1;
  std::int64_t stride_bytes = 0;
  int lower = 0, upper = 0;  ///< corners of the box, from the first and from the last element
  int step = 1;              ///< from one pixel of the box to the next
};

struct Im2colMap {
  int axes = 0;        ///< spatial axes, 1 to 3
  Im2colAxis axis[3];  ///< w, h, d
  std::int64_t images = 1, image_stride_bytes = 0;
  std::int64_t channels_of_tensor = 1;
  int element_bytes = 2;
  int channels = 0, pixels = 0;  ///< of one copy
};

// Limits of the driver's interface, by the number of spatial axes: corners within -corner and
// corner - 1, and offsets of taps below `offset`.
inline constexpr int im2col_corner[4] = {0, 1 << 15, 1 << 7, 1 << 4};
inline constexpr int im2col_offset[4] = {0, 1 << 16, 1 << 8, 1 << 5};
inline constexpr int max_im2col_step = 8, max_im2col_pixels = 1024;
inline constexpr int tensor_map_alignment = 16;  ///< of the address and of strides, in bytes
inline constexpr std::int64_t max_tensor_map_stride = (std::int64_t{1} << 40) - 1;

}  // namespace plumb::cuda
