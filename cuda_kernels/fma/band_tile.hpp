// A block whose threads work from an image tile in shared memory takes a band: some images,
// filters, rows and columns of outputs, and all channels in chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The outputs of one unit of work, which one thread or warp computes whole.
struct UnitTile {
  int images, rows, columns, filters;
};

/// A block has images x filters x rows x columns units.
struct BandTile {
  UnitTile unit;
  std::int64_t images = 1, filters = 1, rows = 1, columns = 1;
  std::int64_t channels = 1;               ///< channels in shared memory at once
  std::int64_t x_rows = 0, x_columns = 0;  ///< of the input under the block's outputs
  std::int64_t pitch = 0;  ///< of a row of the input in shared memory: a multiple of 4
  std::size_t bytes = 0;   ///< of shared memory

  std::int64_t units() const { return images * filters * rows * columns; }
};

/// The limits of a block, as far as the shape leaves a choice.
struct BandLimits {
  std::int64_t units;                 ///< units of a block
  std::int64_t columns, filters = 4;  ///< units of a block along columns and along filters
  std::int64_t enough_units;          ///< a block with this many units takes in no more images
  std::size_t bytes;                  ///< of shared memory for the input and the filters in fp32
};

/// Cuts a band. With large filters and strides even one unit may need more bytes than the limit;
/// `bytes` then says how many.
BandTile make_band_tile(const ConvProblem& problem, const UnitTile& unit, const BandLimits& limits);

}  // namespace plumb::cuda
