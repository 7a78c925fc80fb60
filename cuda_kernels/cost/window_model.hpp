// How long tiles of windows take (few_channels/windows.hpp): a model fitted to measured tiles.
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/few_channels/windows.hpp"

namespace plumb::cuda {

// Tables, whose values kernels do not see: they need not be compiled again.
struct FewChannelsTable;
struct StreamedFiltersTable;

class WindowModel {
 public:
  /// `problem` outlives it.
  WindowModel(const ConvProblem& problem, const DeviceInfo& device, const WindowKernelConfig& unit,
              const WindowCosts& costs);

  /// Of all tiles of the problem, of which `tile.blocks` are on a multiprocessor at once.
  double seconds(const WindowTiles& tile) const;
  /// The same with what tiles are not chosen by: until the scale of a block's first tile is known,
  /// and that of more channels than tiles have been measured of.
  double expected_seconds(const WindowTiles& tile) const;

  /// Whether tiles are copied to where they are multiplied, and rounded there.
  bool in_place() const;
  // Of what a tile stores.
  std::int64_t columns(const WindowTiles& tile) const;
  std::int64_t rows(const WindowTiles& tile) const;
  std::int64_t filters() const;
  /// Whether outputs of a row are neighbours in y.
  bool columns_follow() const;
  /// Whether what warps make are whole sectors of y.
  bool stores_whole_sectors(const WindowTiles& tile) const;

 private:
  std::int64_t stored_side() const;
  /// Whether steps from image to image, filter to filter and row to row of y are multiples of it.
  bool steps_of(std::int64_t multiple) const;
  /// Outputs of a row that a warp stores.
  std::int64_t warp_columns() const;
  /// How many times as long writing takes as if it were of whole sectors.
  double writing(const WindowTiles& tile) const;
  /// Instructions that a warp takes for one strip of eight windows and all filters.
  double issued_of_task(const WindowTiles& tile, double steps, double k_steps) const;
  /// Rows of the input that are read once for all rows of the filter.
  bool rows_stay() const;
  double rows_read() const;
  /// Instructions of warps that write what was gathered.
  double issued_to_write(const WindowTiles& tile) const;
  /// Whether the tile's rows follow each other as the image's do.
  bool in_fours(const WindowTiles& tile) const;
  /// Times that a thread waits for what it reads from memory.
  double loads(const WindowTiles& tile) const;
  /// Clocks that a block waits for its input: of what is staged, only for halves that are alone.
  double clocks_to_read(const WindowTiles& tile, double clocks_of_one) const;
  /// Rows of the input under a tile.
  std::int64_t input_rows(const WindowTiles& tile) const;
  /// Instructions of warps that write the tile's input to its place: for a warp of pairs that lie
  /// in fours or are staged, and otherwise for a row and each turn of its lanes; and what is done
  /// for each warp of pairs besides.
  struct IssuedToLoad {
    double fours, staged, row, turn, besides;
  };
  double issued_to_load(const WindowTiles& tile, const IssuedToLoad& costs) const;
  /// How many tiles each block takes, in whole rounds where they are few.
  double rounds(const WindowTiles& tile) const;
  /// Of a multiprocessor, for a tile of each of its blocks, over their number, where filters stay.
  double resident_clocks(const WindowTiles& tile) const;
  double resident_seconds(const WindowTiles& tile) const;
  double streamed_clocks(const WindowTiles& tile) const;
  /// Instructions of a block's warps to load a tile's input, where filters stream.
  double streamed_loading(const WindowTiles& tile) const;
  double first_scale_seconds(const WindowTiles& tile) const;
  double streamed_seconds(const WindowTiles& tile) const;
  /// How often the warps of a block go through all filters for a tile.
  double streamed_passes(const WindowTiles& tile) const;
  /// Of x and y, and what else costs as much time as moving bytes does.
  double streamed_bytes(const WindowTiles& tile) const;

  const ConvProblem& problem_;
  Machine machine_;
  const FewChannelsTable& few_;
  const StreamedFiltersTable& streamed_;
  WindowKernelConfig unit_;
  WindowCosts costs_;
  WindowTerms terms_;
  std::int64_t stored_bytes_;
};

}  // namespace plumb::cuda
