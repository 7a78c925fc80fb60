// What the copy engine is told to read boxes of a tensor by (cuTensorMapEncodeTiled, CUDA driver
// interface; PTX ISA, "Tiled mode").
//
// A copy writes the box that begins at any coordinates, the first axis fastest and without gaps, to
// shared memory at a multiple of 128 bytes. What lies outside the tensor is written as zeros.
//
// The coordinates of a box are any but for the first axis', where it begins at a multiple of 16
// bytes, outside the tensor too: sm_90 stops at others with an illegal instruction. PTX does not
// say so.
//
// A store writes whole units of 16 bytes of a row, where the tensor ends within one too: sm_90
// wrote behind the end of an innermost axis of 8 bytes. PTX does not say so either.
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// A tensor of `rank` axes, from the innermost on, which has neighbouring elements.
struct TiledMap {
  static constexpr int rank = 5;
  std::int64_t extent[rank] = {1, 1, 1, 1, 1};
  std::int64_t stride_bytes[rank] = {};  ///< the first is not looked at
  int box[rank] = {1, 1, 1, 1, 1};
};

// Limits of the driver's interface besides those of strides (im2col_map.hpp). A box's first axis
// takes a multiple of 16 bytes.
inline constexpr int max_tiled_box = 256;
inline constexpr int tiled_box_alignment = 128;    ///< of a box in shared memory, in bytes
inline constexpr int tiled_corner_alignment = 16;  ///< of its first coordinate, in bytes

}  // namespace plumb::cuda
