// The part of an image channel that lies under a square tile of outputs, in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

struct InputTile {
  int rows, columns;  ///< (tile - 1) stride + (R or S - 1) dilation + 1
  int pitch;          ///< floats from one row to the next
  int size;           ///< floats of all rows
};

/// The contents of a block's shared memory.
struct SharedTile {
  int tile;                ///< outputs along either side
  bool odd_pitch = false;  ///< whether rows of an even length are one longer
  bool filter = false;     ///< whether the R S taps of one channel lie behind the input
};

/// Returns the bytes of shared memory. A double cannot overflow here.
double shared_bytes(const ConvProblem& problem, const SharedTile& shared);

/// Says yes where a block of the device may have as much, and 32 bits can index one image.
Support fits_shared_tile(const ConvProblem& problem, const DeviceInfo& device,
                         const SharedTile& shared);

/// Computes the tile of a problem that passes fits_shared_tile().
InputTile input_tile(const ConvProblem& problem, const SharedTile& shared);

/// Tiles that cover the outputs: down and across those of one image and filter, and all of them.
struct OutputTiles {
  std::int64_t down, across, all;
  OutputTiles(const ConvProblem& problem, int tile)
      : down(ceil_div(problem.p(), tile)),
        across(ceil_div(problem.q(), tile)),
        all(problem.n * problem.k * down * across) {}
};

/// Returns the operations of all threads of those tiles, a thread an output. Threads beyond the
/// last row or column wait for the others, and are counted.
inline double issued_flop(const ConvProblem& problem, int tile) {
  return 2.0 * static_cast<double>(OutputTiles(problem, tile).all) * tile * tile *
         static_cast<double>(problem.terms());
}

}  // namespace plumb::cuda
