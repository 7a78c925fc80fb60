// Loads the input under a block's band of outputs on the device.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/fma/band_tile.hpp"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda {

/// BandTile and the numbers of blocks, as kernels see them.
struct Bands {
  Divisor<int> column_units, row_units, filter_units;          ///< of a block
  Divisor<int> column_tiles, row_tiles, filter_tiles, groups;  ///< of the outputs
  Divisor<int> x_rows;
  Divisor<int> channels, last_channels;  ///< of a chunk, and of the last one
  int images, rows, columns, filters;    ///< of a block, in outputs
  int x_columns, pitch;
  std::int64_t blocks;

  Bands(const ConvProblem& problem, const BandTile& tile)
      : column_units(tile.columns),
        row_units(tile.rows),
        filter_units(tile.filters),
        column_tiles(ceil_div(problem.q(), tile.columns * tile.unit.columns)),
        row_tiles(ceil_div(problem.p(), tile.rows * tile.unit.rows)),
        filter_tiles(ceil_div(problem.k / problem.groups, tile.filters * tile.unit.filters)),
        groups(problem.groups),
        x_rows(tile.x_rows),
        channels(tile.channels),
        last_channels((problem.c / problem.groups - 1) % tile.channels + 1),
        images(static_cast<int>(tile.images * tile.unit.images)),
        rows(static_cast<int>(tile.rows * tile.unit.rows)),
        columns(static_cast<int>(tile.columns * tile.unit.columns)),
        filters(static_cast<int>(tile.filters * tile.unit.filters)),
        x_columns(static_cast<int>(tile.x_columns)),
        pitch(static_cast<int>(tile.pitch)),
        blocks(ceil_div(problem.n, images) * problem.groups * filter_tiles.value() *
               row_tiles.value() * column_tiles.value()) {}

  /// Returns the number of channels of the chunk that begins with `first_c`.
  __device__ const Divisor<int>& channels_from(int first_c, int group_c) const {
    return first_c + channels.value() < group_c ? channels : last_channels;
  }
  /// Returns the elements of one chunk's input in shared memory, [image][channel][x_rows][pitch].
  __host__ __device__ int x_elements() const {
    return images * channels.value() * x_rows.value() * pitch;
  }
};

/// Where a block's outputs begin. Blocks are numbered columns first, then rows, filters, groups and
/// images, so that blocks that share input run side by side.
struct BandOrigin {
  int n, group, k_of_group, p, q;

  __device__ BandOrigin(const Bands& bands, std::int64_t block) {
    const auto [above_columns, column_tile] = bands.column_tiles.divide(static_cast<int>(block));
    const auto [above_rows, row_tile] = bands.row_tiles.divide(above_columns);
    const auto [above_filters, filter_tile] = bands.filter_tiles.divide(above_rows);
    const auto [image_tile, group_number] = bands.groups.divide(above_filters);
    n = image_tile * bands.images;
    group = group_number;
    k_of_group = filter_tile * bands.filters;
    p = row_tile * bands.rows;
    q = column_tile * bands.columns;
  }

  /// Tells the compiler that each value may have changed. It would otherwise save a register and
  /// divide again wherever a value is used, and some are used for every pixel.
  __device__ void keep() {
    for (int* value : {&n, &group, &k_of_group, &p, &q}) asm volatile("" : "+r"(*value));
  }
};

/// Calls `store(to, from, valid)` for each element of a chunk's input. `to` is its index in the
/// tile [image][channel][x_rows][pitch], where an image has the channels of a full chunk; `from` is
/// its address; `valid` says whether it lies inside the image and the batch. Where it does not,
/// `from` is the address of some other element. A warp takes a row at a time.
template <class Stored, class Store>
__device__ void for_each_input(const ConvShape<int>& shape, const Bands& bands,
                               const BandOrigin& origin, const Stored* x, int first_c,
                               const Divisor<int>& channels, Store&& store) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_h = origin.p * shape.stride_h - shape.top;
  const int first_w = origin.q * shape.stride_w - shape.left;
  const int tile_rows = bands.images * channels.value() * bands.x_rows.value();
  for (int row = static_cast<int>(threadIdx.x) / 32; row < tile_rows; row += blockDim.x / 32) {
    const auto [plane, row_of_plane] = bands.x_rows.divide(row);
    const auto [image, channel] = channels.divide(plane);
    const int n = origin.n + image, h = first_h + row_of_plane;
    const bool inside = n < shape.n && h >= 0 && h < shape.h;
    const int from = n * shape.x_step.n +
                     (origin.group * shape.group_c + first_c + channel) * shape.x_step.c +
                     h * shape.x_step.h;
    const int to =
        ((image * bands.channels.value() + channel) * bands.x_rows.value() + row_of_plane) *
        bands.pitch;
    for (int column = lane; column < bands.pitch; column += 32) {
      const int w = first_w + column;
      const bool valid = inside && w >= 0 && w < shape.w && column < bands.x_columns;
      store(to + column, x + (valid ? from + w * shape.x_step.w : 0), valid);
    }
  }
}

}  // namespace plumb::cuda
