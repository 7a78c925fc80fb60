// This header says which terms the steps of interleaved.cu's product have, and which tile a block
// takes.
//
// In shared memory the elements of a tile lie in core rows of eight: a pixel's eight channels, or,
// where channels are fewer, as many taps of them as fill a core row. Core rows of neighbouring
// pixels follow each other in a phase plane. With a stride there is a phase plane for each
// remainder, so that what neighbouring outputs read for one tap are neighbours. Two core rows are a
// k step: the sixteen terms of one product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_kernels/interleaved/interleaved_conv.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"

namespace plumb::cuda {

inline constexpr int interleaved_rows = 64;      ///< of a product: filters times rows of outputs
inline constexpr int interleaved_columns = 128;  ///< of a product: output positions
inline constexpr int interleaved_part_bytes =
    interleaved_rows * 16 * 2;                        ///< of a part of a k step of filters
inline constexpr int interleaved_warpgroups = 2;      ///< consumer warp groups
inline constexpr int interleaved_epilogue_warps = 4;  ///< each stores a quarter of the rows

// Kernels have room for so many of each.
inline constexpr int max_interleaved_k_steps = 240, max_phase_planes = 40, max_channel_blocks = 4;
/// Channels that a layout has at once, and all of them where they come in chunks.
inline constexpr int max_chunk_channels = 8 * max_channel_blocks, max_interleaved_channels = 256;
inline constexpr int max_output_rows = 8, max_output_columns = 2;
/// Where filters are very few, the four epilogue warps store the same filters, each of them at
/// columns of its own.
inline constexpr int output_spread = interleaved_epilogue_warps;
/// Where filters are innermost in y, so many bytes of neighbouring filters are stored at once, and
/// a filter has at most so many rows of outputs, for two vectors of a pixel in a group.
inline constexpr int vector_bytes = 16, max_pixel_rows = 4;
/// Filters that stream come in k tiles of so many bytes, through so many pipeline stages.
inline constexpr int k_tile_bytes = 8192, max_filter_stages = 16, min_filter_stages = 4;

/// Says what a product is made of; how long it takes is in cost/interleaved.hpp.
struct InterleavedElements {
  int parts;         ///< of core rows and filters: 2 where operands are split in high and low ones
  int stored_bytes;  ///< of an element of x and y

  friend bool operator==(const InterleavedElements&, const InterleavedElements&) = default;
  constexpr int k_step_bytes() const { return parts * interleaved_part_bytes; }
  constexpr int core_row_bytes() const { return parts * 16; }
  constexpr int k_tile_steps() const { return k_tile_bytes / k_step_bytes(); }
};

/// Says how channels that fill no core row are put into some. The fewest core rows of terms make
/// the fewest products; the fewest phase planes are the least to load.
struct CoreRowForm {
  bool by_twos;         ///< 7 go as 4, 2 and 1, whose taps fill core rows; else as 7 of a row's 8
  int per_phase_plane;  ///< core rows that a phase plane is worth where taps are chosen
};
inline constexpr CoreRowForm core_row_forms[] = {{false, 0}, {false, 2}, {false, 8},
                                                 {true, 0},  {true, 2},  {true, 8}};

/// The elements of a core row: `channels` of them at each of `taps_h` by `taps_w` taps.
struct ChannelBlock {
  int first_c, channels, taps_h, taps_w;
  bool operator==(const ChannelBlock&) const = default;
};

/// Core rows of a channel block, at every pixel of these remainders by the stride.
struct PhasePlane {
  int channel_block, row_phase, column_phase;
  bool operator==(const PhasePlane&) const = default;
};
/// Eight terms: the core row whose first tap is (r, s) of the filters' rows and columns.
struct CoreRow {
  int phase_plane, r, s;
};

/// Returns the channel that a chunk begins at. The last chunk ends with the last channel: where
/// channels do not fill it, it begins with some that the chunk before has, whose weights in it are
/// zeros.
PLUMB_HOST_DEVICE constexpr int chunk_begin(int chunk, int chunk_channels, int channels) {
  const int begin = chunk * chunk_channels, last = channels - chunk_channels;
  return begin < last ? begin : last;
}

/// The terms of a product. Its rows are filters; where filters are few each stands there several
/// times, for rows of outputs below each other and two columns beside each other: (filter, row,
/// column) of the group is row number (product_filter(filter) * rows + row) * columns + column. The
/// layout depends on neither N nor the tile. Channels that are many come in `chunks` of as many
/// each, one after the other, whose products are added to the same sums: channel blocks, phase
/// planes, core rows and k steps are those of one chunk. With a `spread` the group's filters are
/// copies: number filter * spread + i is the filter at columns i * columns on, so that a filter has
/// spread * columns of them.
struct InterleavedLayout {
  int rows, columns;       ///< of outputs, for each filter or copy of one
  int spread;              ///< copies of a filter: 1 or output_spread
  TapAxis taps_h, taps_w;  ///< of the rows and columns of outputs
  int stride_h, stride_w;  ///< in x, from one output position to the next
  int chunks, chunk_channels;
  int group_filters, groups, k_steps;  ///< group_filters counts copies
  int packed_k_steps;                  ///< k_steps rounded up to whole k tiles
  int k_step_bytes;
  std::vector<ChannelBlock> channel_blocks;
  std::vector<PhasePlane> phase_planes;
  std::vector<CoreRow> core_rows;  ///< as they follow each other in shared memory

  /// `rows` and `columns` are multiples of TapAxis::up().
  InterleavedLayout(const InterleavedConv& conv, const InterleavedElements& elements, int rows,
                    int columns, int spread, CoreRowForm form, int chunks = 1);

  int position_columns() const { return columns * spread; }  ///< of a filter's outputs
  int different_filters() const { return group_filters / spread; }
  /// Whether y's strides let vectors of neighbouring filters be stored.
  bool stores_pixels(const ConvProblem& problem) const;
  /// Returns the k steps that stay in shared memory: without what fills the last k tile.
  int resident_k_steps() const { return (chunks - 1) * packed_k_steps + k_steps; }
  std::size_t group_bytes() const;  ///< packed: a header and the k steps of all chunks
  std::size_t dense_at() const { return group_bytes() * groups; }

 private:
  void add_channel_block(int first_c, int channels, CoreRowForm form);
};

/// Returns the layout of the least predicted time for a large batch, whatever the problem's own.
InterleavedLayout layout_interleaved(InterleavedConv conv, const InterleavedElements& elements);

/// A block's tile, and its shared memory. It has `rows` by `columns` output positions of `images`,
/// each with a filter's outputs of the layout's rows and columns.
struct InterleavedTiles {
  int images = 1, rows = 1, columns = 1;
  int pitch = 1, phase_plane_rows = 1;  ///< pitch of a phase plane, and rows of an image in it
  int bands = 1, column_tiles = 1;
  int k_tiles = 1, filter_stages = 1;  ///< k tiles of a chunk; one stage: all filters stay
  int filter_stage_bytes = 0;
  std::int64_t x_bytes = 0;     ///< of one of the two stages of input
  std::int64_t line_bytes = 0;  ///< of the table of lines
  double seconds = 0;           ///< predicted; 0: no tile fits
  double load_seconds = 0;      ///< predicted, to load one tile's input

  bool streams() const { return filter_stages > 1; }
  /// Whether outputs lie in pairs, each of them within a row of y.
  bool pairs(const InterleavedLayout& layout, const ConvProblem& problem) const {
    return problem.q() % 2 == 0 && (layout.columns == 2 || (columns % 2 == 0 && pitch % 2 == 0));
  }
  int phase_plane_core_rows() const { return images * phase_plane_rows * pitch; }
  int span() const;  ///< core rows from the first position's to behind the last's
  int passes() const { return (span() + interleaved_columns - 1) / interleaved_columns; }
  std::int64_t w_bytes() const { return std::int64_t{filter_stages} * filter_stage_bytes; }
  std::int64_t bytes() const;
  std::int64_t items(const ConvProblem& problem) const;
};

inline constexpr int interleaved_control_bytes = 2048;
inline constexpr int stage_pitch = interleaved_columns + 8;  ///< see staged_row
inline constexpr int stage_bytes = interleaved_rows * stage_pitch * 4;
/// The last product of a tile reads so far beyond the input, in both halves of its terms.
inline constexpr int slack_bytes = 2 * interleaved_columns * 16;

/// Returns the tiles of the least predicted time of an InterleavedConv's problem.
InterleavedTiles tile_interleaved(const ConvProblem& problem, const DeviceInfo& device,
                                  const InterleavedLayout& layout,
                                  const InterleavedElements& elements);

}  // namespace plumb::cuda
