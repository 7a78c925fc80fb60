// A model fitted to measured tiles says how long tiles of interleaved/ take.
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/interleaved/interleaved.hpp"

namespace plumb::cuda {

// Kernels see only the names of the tables of interleaved_table.hpp, so that new values do not make
// them compile again.
struct InterleavedRates;
struct InterleavedTable;

/// Returns the rates of the arithmetic on such elements.
const InterleavedRates& interleaved_rates(const InterleavedElements& elements);

/// Returns the time to load a core row of a channel block, as a multiple of that of a core row of
/// eight channels.
double core_row_share(const ChannelBlock& channel_block, const InterleavedElements& elements);

class InterleavedModel {
 public:
  /// `problem` and `layout` outlive the model.
  InterleavedModel(const ConvProblem& problem, const DeviceInfo& device,
                   const InterleavedLayout& layout, const InterleavedElements& elements);

  /// Predicts the time of all tiles of the problem.
  double seconds(const InterleavedTiles& tile) const;
  /// Predicts the time until the producer warps have loaded one tile's input.
  double load_seconds(const InterleavedTiles& tile) const;

 private:
  /// Returns a multiprocessor's clocks for one tile. Roles and memory work side by side, and slow
  /// each other down: two that need as long each take 1.3 times as long as one.
  double clocks(const InterleavedTiles& tile) const;
  /// Returns the tiles of a multiprocessor.
  double rounds(const InterleavedTiles& tile) const;
  // Each of these returns one tile's clocks of one role by itself: producer, consumer, epilogue
  // warps, memory.
  double producer_clocks(const InterleavedTiles& tile) const;
  double consumer_clocks(const InterleavedTiles& tile, double passes) const;
  double epilogue_clocks(const InterleavedTiles& tile, double passes) const;
  double moving_clocks(const InterleavedTiles& tile) const;

  const ConvProblem& problem_;
  const InterleavedLayout& layout_;
  InterleavedElements elements_;
  Machine machine_;
  const InterleavedTable& table_;
  const InterleavedRates& rates_;
  double clocks_per_second_;
  double filters_;                 ///< filters of a group that exist
  double phase_plane_shares_ = 0;  ///< the sum of core_row_share() over all phase planes
};

/// Returns the time to expect where the model predicts `predicted` for all tiles, and `first_load`
/// for the first tile's input. Tiles have been measured only of problems like those of few200, and
/// none whose channels come in several chunks: for all others the time is longer, so that the
/// algorithm is chosen only where it wins.
double interleaved_seconds(const ConvProblem& problem, const InterleavedElements& elements,
                           int chunks, double first_load, double predicted);

}  // namespace plumb::cuda
