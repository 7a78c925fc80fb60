// How long tiles of interleaved/ take: a model fitted to measured tiles.
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/interleaved/interleaved.hpp"

namespace plumb::cuda {

// Of interleaved_table.hpp, whose values kernels do not see: they need not be compiled again.
struct InterleavedRates;
struct InterleavedTable;

/// The rates of that arithmetic.
const InterleavedRates& interleaved_rates(const InterleavedElements& elements);

/// Time to load a core row of a channel block, as a multiple of that of a core row of eight
/// channels.
double core_row_share(const ChannelBlock& channel_block, const InterleavedElements& elements);

class InterleavedModel {
 public:
  /// `problem` and `layout` outlive it.
  InterleavedModel(const ConvProblem& problem, const DeviceInfo& device,
                   const InterleavedLayout& layout, const InterleavedElements& elements);

  /// Of all tiles of the problem.
  double seconds(const InterleavedTiles& tile) const;
  /// Until the producer warps have loaded one tile's input.
  double load_seconds(const InterleavedTiles& tile) const;

 private:
  /// Of a multiprocessor, for one tile. Roles and memory work side by side, and take from each
  /// other: of two that need as long each, 1.3 times that.
  double clocks(const InterleavedTiles& tile) const;
  /// Tiles of a multiprocessor.
  double rounds(const InterleavedTiles& tile) const;
  // Of one tile, by itself: the producer, consumer and epilogue warps, and memory.
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
  double filters_;                 ///< of a group, that there are
  double phase_plane_shares_ = 0;  ///< of all phase planes: what their core rows take
};

/// The time to expect where the model predicts so much for all tiles, and `first_load` for the
/// first one's input: of problems that are not like those of few200, of which no tiles have been
/// measured, more, so that the algorithm is chosen only where it wins.
double interleaved_seconds(const ConvProblem& problem, const InterleavedElements& elements,
                           double first_load, double predicted);

}  // namespace plumb::cuda
