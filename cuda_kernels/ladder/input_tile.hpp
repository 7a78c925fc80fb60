// The part of an image channel that lies under a square tile of outputs, in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

struct InputTile {
  int rows, columns;  ///< (tile - 1) stride + (R or S - 1) dilation + 1
  int pitch;          ///< from one row to the next, in floats
  int size;           ///< of all rows, in floats
};

/// What lies in shared memory beside each other.
struct SharedTile {
  int tile;                ///< outputs along either side
  bool odd_pitch = false;  ///< rows of an even length are one longer
  bool filter = false;     ///< behind the input, the R S taps of one channel
};

/// Bytes of shared memory. In double, because it cannot overflow.
double shared_bytes(const ConvProblem& problem, const SharedTile& shared);

/// Yes where a block of the device may have as much, and one image can be indexed in 32 bits.
Support fits_shared_tile(const ConvProblem& problem, const DeviceInfo& device,
                         const SharedTile& shared);

/// For problems that fits_shared_tile().
InputTile input_tile(const ConvProblem& problem, const SharedTile& shared);

/// Tiles that cover the outputs of an image and filter, and of all.
struct OutputTiles {
  std::int64_t down, across, all;
  OutputTiles(const ConvProblem& problem, int tile)
      : down(ceil_div(problem.p(), tile)),
        across(ceil_div(problem.q(), tile)),
        all(problem.n * problem.k * down * across) {}
};

/// Operations of all threads of those tiles, a thread an output: those beyond the last row or
/// column wait for the others.
inline double issued_flop(const ConvProblem& problem, int tile) {
  return 2.0 * static_cast<double>(OutputTiles(problem, tile).all) * tile * tile *
         static_cast<double>(problem.terms());
}

}  // namespace plumb::cuda
