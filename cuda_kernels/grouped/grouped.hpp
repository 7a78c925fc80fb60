// How a grouped convolution of few channels a group is cut for the kernel in grouped_kernel.cuh,
// and how its filters are packed: host code alone.
//
// The product's rows are output pixels, its columns filters, its terms the channels of 16 bytes
// (a unit) under a tap. Fragments of filters that lie in the same groups see the units of these
// groups and no others. README.md draws the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int grouped_unit_bytes = 16;
inline constexpr int grouped_max_warps = 8;  ///< of a block
/// Of so many warps, that a multiprocessor has registers for (launch bounds).
inline constexpr int grouped_blocks = 2;
inline constexpr int grouped_band_taps = 3;      ///< of a column, where warps have bands
inline constexpr int grouped_max_channels = 64;  ///< of a group, and filters

/// What a warp sums at once. A bundle is fragments of eight filters that have the same units of x;
/// its strip is `bundles` of them.
struct GroupedShape {
  int beside;   ///< fragments of a bundle
  int bundles;  ///< of a strip
  int m16;      ///< fragments of 16 pixels

  PLUMB_HOST_DEVICE constexpr int n8() const { return beside * bundles; }
  PLUMB_HOST_DEVICE constexpr int filters() const { return 8 * n8(); }  ///< of a strip
  PLUMB_HOST_DEVICE constexpr int pixels() const { return 16 * m16; }
  /// Bytes of a warp's outputs in shared memory, of `size` each: a pixel's filters, or a filter's
  /// pixels, and so many more that fragments meet no bank twice.
  PLUMB_HOST_DEVICE constexpr int pixel_pitch(int size) const { return (filters() + 8) * size; }
  PLUMB_HOST_DEVICE constexpr int filter_pitch(int size) const { return pixels() * size + 16; }
  PLUMB_HOST_DEVICE constexpr int staged_bytes(int size) const {
    const int by_pixels = pixels() * pixel_pitch(size), by_filters = filters() * filter_pitch(size);
    return by_pixels > by_filters ? by_pixels : by_filters;
  }
  bool operator==(const GroupedShape&) const = default;
};
inline constexpr GroupedShape grouped_shapes[] = {{1, 2, 4}, {2, 1, 4}, {4, 1, 2}};

/// An axis of the image. A stride to no second output and a dilation of one tap are 1.
struct GroupedAxis {
  int extent = 1, taps = 1, outputs = 1, stride = 1, dilation = 1, before = 0;

  /// Elements under so many outputs, and of those of one phase modulo the stride.
  PLUMB_HOST_DEVICE int under(int count) const {
    return (count - 1) * stride + (taps - 1) * dilation + 1;
  }
  PLUMB_HOST_DEVICE int of_phase(int count) const { return (under(count) + stride - 1) / stride; }
};

/// What a term multiplies: a unit of those that a bundle sees, under a tap.
struct GroupedTerm {
  int row, column, unit;
};

/// The layout of packed filters: for each bundle its steps, of those its fragments, of those eight
/// bytes for each lane: an instruction's B, of a type as x has it (f32 rounded to TF32). Terms of a
/// bundle are units of taps, and a step is two of them: of a tap where a bundle sees an even
/// number, of two taps of a row where it sees one and warps may have bands. Those of a column's
/// taps follow each other: the row of x that a fragment reads under one tap is the one that the
/// fragment above it reads under the next. Channels of other groups are zeros, and so is what fills
/// up a step or stands for taps and filters beyond the last.
struct GroupedFilters {
  GroupedShape shape = grouped_shapes[0];
  int unit = 8;  ///< channels of 16 bytes
  int k = 0, group_c = 1, group_k = 1;
  int rows = 1, columns = 1;  ///< of taps
  /// Columns are of three taps, and go on from one row of outputs to the next.
  bool of_bands = false;
  int all_units = 1;       ///< of x, the last one perhaps in part
  int units = 1;           ///< that a bundle sees
  int beside = 1;          ///< terms of a row of taps that follow each other
  int columns_beside = 1;  ///< as many make the row
  int strips = 1;

  GroupedFilters() = default;
  explicit GroupedFilters(const ConvProblem& problem);
  PLUMB_HOST_DEVICE int size() const { return grouped_unit_bytes / unit; }  ///< bytes of an element
  PLUMB_HOST_DEVICE int bundles() const { return strips * shape.bundles; }
  PLUMB_HOST_DEVICE int bundle_filters() const { return 8 * shape.beside; }

  bool takes_bands() const { return of_bands && beside == 2; }
  PLUMB_HOST_DEVICE int terms() const { return columns_beside * rows * beside; }
  PLUMB_HOST_DEVICE int steps() const { return (terms() + 1) / 2; }
  PLUMB_HOST_DEVICE int term(const GroupedTerm& of) const {
    const int in_row = of.column * units + of.unit;
    return (in_row / beside * rows + of.row) * beside + in_row % beside;
  }
  /// The term of a number; its column may be the one behind the last.
  PLUMB_HOST_DEVICE GroupedTerm term_at(int number) const {
    const int in_row = number / beside / rows * beside + number % beside;
    return {.row = number / beside % rows, .column = in_row / units, .unit = in_row % units};
  }

  PLUMB_HOST_DEVICE int bundle_bytes() const { return steps() * shape.beside * 256; }
  PLUMB_HOST_DEVICE int strip_bytes() const { return shape.bundles * bundle_bytes(); }
  PLUMB_HOST_DEVICE std::int64_t bytes() const { return std::int64_t{strips} * strip_bytes(); }
  /// The first unit of a bundle: such that it sees none beyond the last.
  PLUMB_HOST_DEVICE int first_unit(int bundle) const {
    const int first = bundle * bundle_filters(), filter = first < k ? first : k - 1;
    const int of_first = filter / group_k * group_c / unit, last = all_units - units;
    return of_first < last ? of_first : last;
  }
  /// Where the element of a filter, a channel of x and a tap lies: in elements.
  PLUMB_HOST_DEVICE std::int64_t place(int filter, int channel, int row, int column) const {
    const int bundle = filter / bundle_filters(), tile = filter % bundle_filters() / 8;
    const int number =
        term({.row = row, .column = column, .unit = channel / unit - first_unit(bundle)});
    const int of_word = unit / 4, lane = filter % 8 * 4 + channel % unit / of_word;
    const std::int64_t fragment =
        (std::int64_t{bundle} * steps() + number / 2) * shape.beside + tile;
    return ((fragment * 32 + lane) * 2 + number % 2) * of_word + channel % of_word;
  }
};

/// How x comes to shared memory: units of channels that lie side by side in a pixel, or some pixels
/// of a row, of as many channels each.
enum class GroupedInput { units, runs };
/// What is stored at once: neighbouring filters of a pixel, or some pixels of a filter.
enum class GroupedOutput { filters, runs };

/// What a block has: some strips of filters, and for them one tile of outputs after the other, with
/// x under it in shared memory. A pixel has its units side by side. Rows and columns lie by
/// their phase modulo the stride, so that neighbouring outputs read neighbouring pixels under every
/// tap.
struct GroupedCut {
  int warps = grouped_max_warps;
  int strips = 1;                         ///< of a block
  int units = 1;                          ///< that its strips see
  int images = 1, rows = 1, columns = 1;  ///< of outputs
  /// A warp's fragments are of 16 neighbouring outputs each, and lie one under the other in a band
  /// of as many rows; otherwise they follow each other.
  bool bands = false;
  int phase_rows = 1, phase_columns = 1;                ///< of one phase, of x
  int pixel_units = 1, row_units = 1, image_units = 1;  ///< from one to the next
  GroupedInput input = GroupedInput::runs;
  GroupedOutput output = GroupedOutput::runs;
  int x_run = 1, y_run = 1;  ///< pixels that move at once
  int parts = 1;             ///< of all strips
  int tiles_n = 1, tiles_p = 1, tiles_q = 1;
  int blocks = 1;                                                              ///< of a part
  int terms_bytes = 16, places_bytes = 16, rows_bytes = 16, patch_bytes = 16;  ///< shared
  double seconds = 0;                                                          ///< predicted

  PLUMB_HOST_DEVICE int threads() const { return 32 * warps; }
  PLUMB_HOST_DEVICE int pixels() const { return images * rows * columns; }
  /// Of an image's outputs, in the order that warps take them: of the first rows of bands.
  int image_pixels(const GroupedShape& shape) const {
    return (bands ? (rows + shape.m16 - 1) / shape.m16 : rows) * columns;
  }
  /// What a warp sums at once, times as many make a tile.
  int runs(const GroupedShape& shape) const {
    const int of_run = bands ? 16 : shape.pixels();
    return (images * image_pixels(shape) + of_run - 1) / of_run;
  }
  int tiles() const { return tiles_n * tiles_p * tiles_q; }
  /// Of neighbouring lanes that load runs, those that have a pixel's neighbouring units: as many as
  /// a run has pixels, where the units divide so. What eight lanes write then lies in all banks;
  /// otherwise banks are met `x_run` over this many times.
  int lane_units() const {
    int count = x_run;
    while (units % count != 0) count /= 2;
    return count;
  }
};

/// What is to be taken in place of what the model prefers, where it is not 0.
struct GroupedChoice {
  int strips = 0, images = 0, rows = 0, columns = 0, warps = 0, blocks = 0;
  std::optional<bool> bands = {};
};

struct GroupedPlan {
  GroupedAxis h, w;
  GroupedFilters filters;
  GroupedCut cut;

  std::size_t shared_bytes() const;
};

Support supports_grouped(const ConvProblem& problem, DType stored, const DeviceInfo& device);
/// Plans a problem; nothing where no tile fits shared memory.
std::optional<GroupedPlan> plan_grouped(const ConvProblem& problem, const DeviceInfo& device,
                                        const GroupedChoice& choice = {});
/// The most additions on the way of a product to its sum: all that tensor cores are given, zeros
/// among them.
double grouped_chain(const ConvProblem& problem);

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class GroupedFault {
  none,
  stale_patch,      ///< copies are not waited for
  wrong_tap,        ///< the last tap is read where the one before lies
  wrong_unit,       ///< all bundles of a strip see the first one's units
  padding_of_ones,  ///< what lies outside of the image is ones
  wrong_row,        ///< of bands, the last tap of a column is read where the one before lies
  lost_strip,       ///< a block's last strip is left out
  exchanged_terms,  ///< the halves of a fragment of x are exchanged
  unrounded,        ///< units of f32 go to tensor cores as they are
  unmasked,         ///< outputs beyond the last are stored; for the host's memory alone
};

}  // namespace plumb::cuda
