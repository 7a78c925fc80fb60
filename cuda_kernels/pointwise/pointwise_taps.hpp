// How a convolution with few terms (channels times taps) is cut for the kernel in
// pointwise_taps_kernel.cuh: host code alone.
//
// The product is pointwise.hpp's: its rows are output pixels, numbered through N Z P Q, its columns
// filters. Its terms are the pairs of a channel and a tap, of which a warp gathers those of its
// pixels from x to registers, once for all filters. README.md draws how outputs leave.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/pointwise/pointwise.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// There are kernels for so many terms, which a warp holds of its pixels.
inline constexpr int taps_rooms[] = {32, 64}, max_taps_terms = 64;
/// Blocks that share a multiprocessor's registers, of kernels with this room.
PLUMB_HOST_DEVICE constexpr int taps_resident(int room) { return room == taps_rooms[0] ? 2 : 1; }
/// Warps of a block, which has as many tiles of pixels side by side: one block's tile.
inline constexpr int taps_warps = 8;
/// Filters of a chunk, which a block multiplies at a time, in n8 tiles.
inline constexpr int taps_n8_tiles = 2, taps_chunk = 8 * taps_n8_tiles;
/// Of a filter's outputs in shared memory. Rows of four lanes are eight banks apart.
inline constexpr int taps_row_bytes = 1184, taps_stage_bytes = taps_chunk * taps_row_bytes;
/// Pieces of a block's tile that lie by themselves in y, as many as a row has room for.
inline constexpr int max_taps_pieces = 5;

/// Filters and terms of a place in the packed filters, which have the layout of PointwiseFilters
/// but for the order within: lane 4 g + t has of each k step its terms `of_step` · t and on, so
/// that few terms fill few k steps. A lane's four sums of a pixel are of neighbouring filters.
struct TapsPlace {
  int filter, first_term;  ///< of the first k step of the unit
  int of_step;             ///< terms of a lane in a k step; in the next they are 4 of_step further

  PLUMB_HOST_DEVICE TapsPlace(int vector, int chunk, int unit, int tile, int lane)
      : filter(chunk * taps_chunk + lane / 8 * 4 + tile * 2 + lane / 4 % 2),
        first_term(unit * 4 * vector + lane % 4 * (vector / 2)),
        of_step(vector / 2) {}
  /// The i-th term of a lane in a unit.
  PLUMB_HOST_DEVICE int term(int i) const {
    return first_term + i / of_step * 4 * of_step + i % of_step;
  }
};

/// The layout of packed filters: for each chunk its units; of those its n8 tiles; of those, for
/// each plane, 16 bytes for each lane (TapsPlace). The filters as they were follow, K by C T R S,
/// for outputs that are summed by the definition.
struct TapsFilters {
  PointwiseClass of = pointwise_class_fp16;
  int k = 0, terms = 0;
  int t = 1, r = 1, s = 1;
  int units = 0;  ///< of a lane's registers, of which `steps` k steps have terms
  int chunks = 0;

  TapsFilters(const ConvProblem& problem, const PointwiseClass& arithmetic);
  PLUMB_HOST_DEVICE int step_terms() const { return of.unit() / 2; }
  /// Those that hold the terms, in sixteens.
  PLUMB_HOST_DEVICE int steps() const { return (terms + 15) / 16 * (16 / step_terms()); }
  PLUMB_HOST_DEVICE int chunk_bytes() const {
    return units * taps_n8_tiles * of.planes() * pointwise_fragment_bytes;
  }
  PLUMB_HOST_DEVICE std::int64_t dense_at() const { return std::int64_t{chunks} * chunk_bytes(); }
  std::size_t bytes() const;
};

/// What leaves a block at once: pixels of a filter, through shared memory, in vectors wherever a
/// plane begins; neighbouring filters of a pixel; or one output.
enum class TapsOutput { planes, filters, elements };

/// Pixels whose outputs of a filter are one step apart each, from the first on.
struct TapsRun {
  std::int64_t pixels = 1, step = 0;  ///< step in elements of y
  explicit TapsRun(const ConvProblem& problem);
};

/// How outputs leave where y lies at this address.
TapsOutput taps_output(const ConvProblem& problem, const TapsFilters& filters, bool accumulates,
                       const void* y);

/// How a slice of the batch is shared out: a block has a group of chunks, and tiles of pixels.
struct TapsCut {
  int group_chunks = 1, groups = 1;
  int blocks = 1;      ///< of a group
  double seconds = 0;  ///< predicted
};

struct TapsPlan {
  TapsFilters filters;
  TapsCut cut;
  std::int64_t images = 1;  ///< of a slice, which 32 bits can index
  double seconds = 0;       ///< predicted, of all slices

  /// Plans a problem that is supported. `group_chunks` is taken in place of what the model
  /// prefers, where it is not 0.
  TapsPlan(const ConvProblem& problem, const PointwiseClass& of, const DeviceInfo& device,
           int group_chunks = 0);
  /// Of a block: filters, outputs twice, where terms lie in x, biases in fp32.
  std::size_t shared_bytes() const;
};

/// Says whether the kernel takes a problem in this arithmetic.
Support supports_taps(const ConvProblem& problem, const PointwiseClass& of,
                      const DeviceInfo& device);

}  // namespace plumb::cuda
