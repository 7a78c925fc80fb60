// How a block's share of the outputs is cut where its threads work from an image tile in shared
// memory: some images, filters, rows and columns of outputs, all channels in chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The outputs of one unit of work, which is not divided further.
struct UnitTile {
  int images, rows, columns, filters;
};

/// A block has images x filters x rows x columns units.
struct BandTile {
  UnitTile unit;
  std::int64_t images = 1, filters = 1, rows = 1, columns = 1;
  std::int64_t channels = 1;               ///< of the group, in shared memory at once
  std::int64_t x_rows = 0, x_columns = 0;  ///< of the input, under the block's outputs
  std::int64_t pitch = 0;  ///< of a row of the input in shared memory: a multiple of 4
  std::size_t bytes = 0;   ///< of shared memory

  std::int64_t units() const { return images * filters * rows * columns; }
};

/// What a block shall not go beyond, where the shape leaves a choice.
struct BandLimits {
  std::int64_t units;                 ///< in all
  std::int64_t columns, filters = 4;  ///< units along these
  std::int64_t enough_units;          ///< more images are not taken in once there are as many
  std::size_t bytes;                  ///< of shared memory for the input and the filters in fp32
};

/// Large filters and strides may need more bytes than the limit even with one unit: then `bytes`
/// says how many.
BandTile make_band_tile(const ConvProblem& problem, const UnitTile& unit, const BandLimits& limits);

}  // namespace plumb::cuda
