// The product of interleaved.cu: which terms its steps have, and which tile a block takes.
//
// In shared memory the elements of a tile lie in records of eight: a pixel's eight channels, or,
// of channels that are fewer, as many taps of them as fill a record. Records of neighbouring pixels
// follow each other in a sheet; of a stride there is a sheet for each remainder, so that what
// neighbouring outputs read for one tap are neighbours. Two records are a slot: the sixteen terms
// of one product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"

namespace plumb::cuda {

inline constexpr int interleaved_rows = 64;      ///< of a product: filters times rows of outputs
inline constexpr int interleaved_columns = 128;  ///< of a product: output positions
inline constexpr int interleaved_part_bytes = interleaved_rows * 16 * 2;  ///< of a slot of filters
inline constexpr int interleaved_warpgroups = 2;                          ///< consumer warp groups
inline constexpr int interleaved_epilogue_warps = 4;  ///< each stores a quarter of the rows

// What kernels have room for.
inline constexpr int max_interleaved_slots = 240, max_sheets = 40, max_planes = 4;
inline constexpr int max_output_rows = 8, max_output_columns = 2;
/// Filters that stream come in slices of so many bytes, through a ring of so many stages.
inline constexpr int slice_bytes = 8192, max_filter_stages = 16, min_filter_stages = 4;

/// What a product is made of. How long it takes is in cost/interleaved.hpp.
struct InterleavedElements {
  int parts;         ///< of records and filters: 2 where operands are split in high and low ones
  int stored_bytes;  ///< of an element of x and y

  friend bool operator==(const InterleavedElements&, const InterleavedElements&) = default;
  constexpr int slot_bytes() const { return parts * interleaved_part_bytes; }
  constexpr int record_bytes() const { return parts * 16; }
  constexpr int slice_slots() const { return slice_bytes / slot_bytes(); }
};

/// How channels that fill no record are put into some. The fewest records of terms make the fewest
/// products; the fewest sheets of them are the least to load.
struct RecordForm {
  bool by_twos;   ///< seven as four, two and one, whose taps fill records: else as seven of eight
  int per_sheet;  ///< how many records of terms a sheet is worth, where taps are chosen
};
inline constexpr RecordForm record_forms[] = {{false, 0}, {false, 2}, {false, 8},
                                              {true, 0},  {true, 2},  {true, 8}};

/// Elements of a record: `channels` of them at each of `taps_h` by `taps_w` taps.
struct RecordPlane {
  int first_c, channels, taps_h, taps_w;
  bool operator==(const RecordPlane&) const = default;
};

/// Records of a plane, at every pixel of these remainders by the stride.
struct Sheet {
  int plane, row_phase, column_phase;
  bool operator==(const Sheet&) const = default;
};
/// Eight terms: the record whose first tap is (r, s) of the filters' rows and columns.
struct Record {
  int sheet, r, s;
};

/// The terms of a product. Its rows are filters, and of few filters each several times, for rows of
/// outputs below each other and two columns beside each other: (filter, row, column) of the group
/// is number (product_filter(filter) * rows + row) * columns + column. Depends on neither N nor the
/// tile.
struct InterleavedLayout {
  int rows, columns;              ///< of outputs, for each filter
  int row_stride, column_stride;  ///< in x, from one row or column of outputs to the next
  int stride_h, stride_w;         ///< from one output position to the next: rows * row_stride
  int group_filters, groups, slots;
  int packed_slots;  ///< whole slices of them
  int slot_bytes;
  std::vector<RecordPlane> planes;
  std::vector<Sheet> sheets;
  std::vector<Record> records;  ///< as they follow each other in shared memory

  InterleavedLayout(const ConvProblem& problem, const InterleavedElements& elements, int rows,
                    int columns, RecordForm form);

  std::size_t group_bytes() const;  ///< packed: a header and the slots
  std::size_t dense_at() const { return group_bytes() * groups; }

 private:
  void add_plane(const ConvProblem& problem, int first_c, int channels, RecordForm form);
};

/// The one of least predicted time for a large batch, whatever the problem's own.
InterleavedLayout layout_interleaved(ConvProblem problem, const InterleavedElements& elements);

/// A block's tile: `rows` by `columns` output positions of `images`, each with a filter's outputs
/// of a layout's rows and columns; and its shared memory.
struct InterleavedTiles {
  int images = 1, rows = 1, columns = 1;
  int pitch = 1, sheet_rows = 1;  ///< of a sheet, and of an image in it
  int bands = 1, column_tiles = 1;
  int slices = 1, filter_stages = 1;  ///< one stage: all filters stay
  int filter_stage_bytes = 0;
  std::int64_t x_bytes = 0;     ///< of one of the two stages of input
  std::int64_t line_bytes = 0;  ///< of the table of lines
  double seconds = 0;           ///< predicted; 0: no tile fits
  double load_seconds = 0;      ///< predicted: of one tile's input

  bool streams() const { return filter_stages > 1; }
  /// Whether outputs lie in pairs, each within a row of y.
  bool pairs(const InterleavedLayout& layout, const ConvProblem& problem) const {
    return problem.q() % 2 == 0 && (layout.columns == 2 || (columns % 2 == 0 && pitch % 2 == 0));
  }
  int sheet_records() const { return images * sheet_rows * pitch; }
  int span() const;  ///< records from the first position's to behind the last's
  std::int64_t w_bytes() const { return std::int64_t{filter_stages} * filter_stage_bytes; }
  std::int64_t bytes() const;
  std::int64_t items(const ConvProblem& problem) const;
};

inline constexpr int interleaved_control_bytes = 2048;
inline constexpr int stage_pitch = interleaved_columns + 8;  ///< see staged_row
inline constexpr int stage_bytes = interleaved_rows * stage_pitch * 4;
/// Behind the input, which the last product of a tile reads beyond: both halves of its terms.
inline constexpr int slack_bytes = 2 * interleaved_columns * 16;

/// The tiles of least predicted time.
InterleavedTiles tile_interleaved(const ConvProblem& problem, const DeviceInfo& device,
                                  const InterleavedLayout& layout,
                                  const InterleavedElements& elements);

}  // namespace plumb::cuda
