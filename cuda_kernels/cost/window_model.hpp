// A model fitted to measured tiles says how long tiles of windows take (few_channels/windows.hpp).
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/few_channels/windows.hpp"

namespace plumb::cuda {

// Kernels see only the names of these tables, so that new values do not make them compile again.
struct FewChannelsTable;
struct StreamedFiltersTable;

class WindowModel {
 public:
  WindowModel(const ConvProblem& problem, const DeviceInfo& device, const WindowKernelConfig& unit,
              const WindowCosts& costs);

  /// Predicts the time of all tiles of the problem, of which `tile.blocks` are on a multiprocessor
  /// at once.
  double seconds(const WindowTiles& tile) const;
  /// Predicts what seconds() does, and adds the times that tiles are not chosen by: the time until
  /// the scale of a block's first tile is known, and that of more channels than have been measured.
  double expected_seconds(const WindowTiles& tile) const;
  /// Returns the elements of x that all tiles load, those at their borders more than once.
  double loaded_elements(const WindowTiles& tile) const;

  /// Says whether tiles are copied to the place where they are multiplied, and rounded there.
  bool in_place() const;
  // These return the outputs that a tile stores.
  std::int64_t columns(const WindowTiles& tile) const;
  std::int64_t rows(const WindowTiles& tile) const;
  std::int64_t filters() const;
  /// Says whether outputs of a row are neighbours in y.
  bool columns_follow() const;
  /// Says whether the outputs of a warp are whole sectors of y.
  bool stores_whole_sectors(const WindowTiles& tile) const;

 private:
  std::int64_t stored_side() const;
  /// Says whether the steps of y from image to image, filter to filter and row to row are multiples
  /// of `multiple`.
  bool steps_of(std::int64_t multiple) const;
  /// Returns the outputs of a row that a warp stores.
  std::int64_t warp_columns() const;
  /// Returns the time that writing takes over the time that it would take for whole sectors.
  double writing(const WindowTiles& tile) const;
  /// Returns the instructions that a warp takes for one strip of eight windows and all filters.
  double issued_of_task(const WindowTiles& tile, double steps, double k_steps) const;
  /// Says whether rows of the input are read once for all rows of the filter.
  bool rows_stay() const;
  double rows_read() const;
  /// Returns the instructions of warps that write the gathered outputs.
  double issued_to_write(const WindowTiles& tile) const;
  /// Says whether the tile's rows follow each other as the image's do.
  bool in_fours(const WindowTiles& tile) const;
  /// Returns how many times a thread waits for reads from memory.
  double loads(const WindowTiles& tile) const;
  /// Returns the clocks that a block waits for its input. Of a staged input it waits only for
  /// halves that have no neighbour to pair with.
  double clocks_to_read(const WindowTiles& tile, double clocks_of_one) const;
  /// Returns the rows of the input under a tile.
  std::int64_t input_rows(const WindowTiles& tile) const;
  /// The instructions of warps that write the tile's input to its place. They are counted for a
  /// warp of pairs where pairs lie in fours or are staged, and otherwise for a row and each turn of
  /// its lanes; `besides` counts for each warp of pairs in addition.
  struct IssuedToLoad {
    double fours, staged, row, turn, besides;
  };
  double issued_to_load(const WindowTiles& tile, const IssuedToLoad& costs) const;
  /// Returns how many tiles each block takes, in whole rounds where they are few.
  double rounds(const WindowTiles& tile) const;
  /// Returns a multiprocessor's clocks for one tile of each of its blocks, divided by the number of
  /// blocks, where filters stay.
  double resident_clocks(const WindowTiles& tile) const;
  double resident_seconds(const WindowTiles& tile) const;
  double streamed_clocks(const WindowTiles& tile) const;
  /// Returns the instructions of a block's warps to load a tile's input, where filters stream.
  double streamed_loading(const WindowTiles& tile) const;
  double first_scale_seconds(const WindowTiles& tile) const;
  double streamed_seconds(const WindowTiles& tile) const;
  /// Returns how often the warps of a block go through all filters for a tile.
  double streamed_passes(const WindowTiles& tile) const;
  /// Returns the bytes of x and y, plus those that would take as long to move as the other costs of
  /// moving.
  double streamed_bytes(const WindowTiles& tile) const;

  ConvProblem problem_;  ///< of a plane (plane_of())
  WindowDepth depth_;
  double bytes_;           ///< of x, w and y
  std::int64_t channels_;  ///< of the product
  Machine machine_;
  const FewChannelsTable& few_;
  const StreamedFiltersTable& streamed_;
  WindowKernelConfig unit_;
  WindowCosts costs_;
  WindowTerms terms_;
  std::int64_t stored_bytes_;
};

}  // namespace plumb::cuda
