// Convolutions of few channels are products of windows and filters: this header says how a problem
// is cut into windows, steps and tiles.
//
// A window is the stretch of a row of the input under `shifts` neighbouring outputs. Each filter
// row stands in the product `shifts` times, each time one output further on, so that windows follow
// each other every two elements: two outputs at stride 1, one at stride 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int window_step = 2;  ///< elements from one window to the next
inline constexpr int widest_filter = 15;

/// How the input comes to shared memory.
enum class Staging {
  bulk,   ///< ahead of its use, as it is, by the copy engine (sm_90)
  async,  ///< ahead of its use, as it is, by copies of 16 bytes (sm_80)
  ahead,  ///< ahead of its use, row by row, to one of two places where it is multiplied
  none,   ///< when it is used
};

inline constexpr int streamed_windows = 16;  ///< windows of a warp, where filters stream

/// What a kernel is compiled for.
struct WindowKernelConfig {
  int fragments = 0;        ///< sums of sixteen outputs that a warp makes, one above the other
  int filter_n8_tiles = 0;  ///< columns of the product, in n8 tiles
  bool warpgroups = false;  ///< four warps multiply together, with filters from shared memory
  bool streams = false;     ///< packed filters come k tile by k tile while they are multiplied
  int warps_held = 16;      ///< warps that a multiprocessor has registers for

  friend bool operator==(const WindowKernelConfig&, const WindowKernelConfig&) = default;
  /// A fragment is eight windows at two rows; where filters stream it is sixteen at one row.
  constexpr int strip_rows() const { return streams ? fragments : 2 * fragments; }
  constexpr int warp_windows() const { return streams ? streamed_windows : 8; }
  constexpr bool small() const { return !streams && fragments <= 2 && filter_n8_tiles == 1; }
  constexpr int warps() const { return small() ? 24 : warps_held; }
  constexpr int max_threads() const { return small() ? 256 : warps_held * 32; }  ///< of a block
};

/// What a scheme's arithmetic costs.
struct WindowCosts {
  int element_bytes;      ///< of all parts of an element in shared memory
  int k_step_bytes;       ///< of a lane's filters for two segments
  double mmas_of_k_step;  ///< products of 16 x 8 pairs of registers
  bool scaled;            ///< the input is scaled, and read twice
  int products;           ///< of a term

  friend bool operator==(const WindowCosts&, const WindowCosts&) = default;
};

/// The planes of a problem, of x and of y. An image with a depth is a volume: a plane of x lies
/// under several planes of y, and is loaded once for all of those in a tile. A batch of images
/// without a depth is one volume whose filters are one plane deep, so that kernels know nothing
/// else.
struct WindowDepth {
  bool of_volumes = false;  ///< whether images have a depth
  std::int64_t volumes = 1;
  std::int64_t planes = 1;   ///< of x, for each channel of a volume
  std::int64_t outputs = 1;  ///< planes of y, for each filter of a volume
  std::int64_t taps = 1;
  std::int64_t stride = 1;  ///< planes of x from an output's first tap to the next output's
  std::int64_t step = 1;    ///< planes of x from a tap to the next; those between are not loaded
  std::int64_t before = 0;  ///< planes of padding

  explicit WindowDepth(const ConvProblem& problem);
  /// Whether a tile may have several outputs: its planes of x are `step` apart.
  bool follow() const { return stride % step == 0; }
  /// Planes that are loaded of a channel, from an output's first tap to the next output's.
  std::int64_t apart() const { return stride / step; }
  /// Planes that are loaded of a channel under `images` outputs.
  std::int64_t under(std::int64_t images) const { return (images - 1) * apart() + taps; }
};

/// The problem of a single plane of x under a plane of y: the problem itself where it has no depth.
/// Its batch is all planes of y, its channels those of x, and its filters one of their planes.
ConvProblem plane_of(const ConvProblem& problem);

/// Channels of the product: those of all planes under a filter. Channel c of tap t is number t C +
/// c, as planes are in a tile.
inline std::int64_t product_channels(const ConvProblem& problem) { return problem.c * problem.t; }

/// How a filter's terms stand in the product.
struct WindowTerms {
  int shifts;        ///< outputs of a window along its row
  int segments;      ///< segments of eight taps in a channel
  int segment_rows;  ///< filter rows in a segment
  int columns;       ///< of the input that a window spans
  int second, pair;  ///< rows from the first segment to the second, and to the third

  explicit WindowTerms(const ConvProblem& problem);
  WindowTerms(const ConvProblem& problem, const WindowKernelConfig& unit)
      : WindowTerms(unit.streams ? in_pairs(problem) : WindowTerms(problem)) {}
  /// Filter rows stand one after the other, in pairs of columns, through all channels.
  static WindowTerms in_pairs(const ConvProblem& problem);
  int k_steps() const { return (segments + 1) / 2; }
  int eight_filters() const { return 8 / shifts; }  ///< filters in eight columns of the product
  bool wide() const { return columns > 8; }
  int segment_bits() const { return columns >= 8 ? 3 : columns / 2; }  ///< log2 of segment columns
};

/// The terms of streamed filters are in filter strips. A k step of the product is eight pairs, each
/// of two neighbours in a row of the filter. From k step to k step the pairs go down the filter's
/// rows together, so that what a fragment of outputs reads for one k step is what the fragment
/// above reads for the next.
struct FilterStrips {
  static constexpr int pairs = 8;  ///< pairs abreast in a k step
  static constexpr int table_bytes =
      8 * sizeof(int);             ///< of the table of where a filter strip's pairs begin
  static constexpr int ahead = 2;  ///< filter strips by which the table is read ahead
  int length = 1;                  ///< k steps of a filter strip: rows of the filter, `step` apart
  int step = 1;                    ///< the stride; 1 for filter strips of one k step
  int parities = 1;                ///< filter strips whose rows lie between each other's
  int starts = 1;                  ///< filter strips in two neighbouring columns of the filter
  int count = 0;                   ///< filter strips of eight pairs abreast
  int reach = 1;  ///< rows from the first to the last, which may lie behind the filter's last

  FilterStrips() = default;
  /// Chooses the filter strips of the least time.
  FilterStrips(const ConvProblem& problem, const WindowKernelConfig& unit,
               const WindowCosts& costs);
  int k_steps() const { return count * length; }
};
/// Pairs that a lane reads at once where a tile's input is not staged.
inline constexpr int pairs_at_once = 4;
/// Pairs or elements that a thread has under way at once of a row that is loaded in place.
inline constexpr int loaded_at_once = 4;

/// Says how many lanes share a row of the tile's input where it is read pair by pair, or copied
/// element by element. The number matters because each row has its price.
struct RowLanes {
  int bits = 5;  ///< log2 of the lanes
  int turns = 1;

  RowLanes(std::int64_t pitch, bool copied);
  int count() const { return 1 << bits; }
};

/// A problem is cut into tiles of some images (of a volume: planes of y that follow each other),
/// strips of rows and columns of outputs, with all channels. A strip is what a warp makes of one
/// window.
struct WindowTiles {
  int images = 1, strips = 1, windows = 1;  ///< of a tile
  int x_rows = 0, pitch = 0;                ///< of the input under a tile, in elements
  std::int64_t column_tiles = 1, bands = 1;
  std::int64_t image_tiles = 1, volumes = 1;  ///< tiles along the images of a volume; volumes
  int filter_groups = 1;
  Staging staging = Staging::none;
  bool whole_images = false;  ///< staged as one stretch
  int raw_pitch = 0;          ///< elements from a staged stretch to the next
  std::size_t raw_bytes = 0, x_bytes = 0, w_bytes = 0;
  int row_lanes_bits = 5;  ///< as in RowLanes
  // Where filters stream, these count the filter strips of a k tile, the k tiles of all filters,
  // and the stages that k tiles pass through.
  int k_tile_strips = 0, k_tiles = 1, filter_stages = 1;
  bool bulk_filters = false;  ///< the copy engine loads k tiles, where there is one
  FilterStrips filter_strips;
  std::size_t table_bytes = 0;  ///< of the table of where a k step's pairs lie in the tile
  // Outputs are gathered in shared memory, in a stretch for each image and filter, and go to y in
  // runs: warps make short pieces of rows, and a piece of a memory sector costs more than the whole
  // sector.
  int y_pitch = 0;      ///< elements from one stretch to the next; 0: written as they are made
  int y_row_pitch = 0;  ///< elements between rows of a stretch; 0: they follow each other, as in y
  std::size_t y_bytes = 0;
  bool bulk_stores = false;    ///< the copy engine stores what is gathered
  bool whole_sectors = false;  ///< warps make whole sectors of y
  int threads = 256;           ///< of a block
  int blocks = 1;              ///< of a multiprocessor at once
  double seconds = 0;

  /// Whether a tile's input comes, as it is, to a place of its own first.
  bool staged() const { return staging == Staging::bulk || staging == Staging::async; }
  std::int64_t items() const { return column_tiles * bands * image_tiles * volumes; }
  std::size_t bytes() const;
};

inline constexpr int max_window_stages = 6;

/// Returns yes for geometries that windows can be cut from.
Support windows_fit(const ConvProblem& problem);

/// Returns whether neighbours at even columns of the input under a tile can be read as one. With
/// `x` nullptr it takes the data to be aligned.
bool input_in_pairs(const ConvProblem& problem, const void* x);

/// Returns whether four warps together multiply filters that stream. They do where the device and
/// the build have wgmma, where filters may come by the copy engine, and where columns are not so
/// few that warps are faster by themselves.
bool products_by_warpgroups(int n8_tiles, Staging staging, const DeviceInfo& device);

/// Returns yes where filters in so many groups can stream; the limit is that a block meets one
/// group.
Support streams_fit(const ConvProblem& problem, const DeviceInfo& device, std::int64_t groups);

/// Bytes of shared memory in front of the filters.
inline constexpr std::size_t window_control_bytes = 1024;

/// Returns the tiles of the least predicted time with that unit; where there are none, `bytes()` is
/// more than the device has.
WindowTiles plan_windows(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowKernelConfig& unit, const WindowCosts& costs, Staging wanted);

/// Returns all tiles that plan_windows() considers and that fit, the fastest by prediction first:
/// for programs that measure them.
std::vector<WindowTiles> all_window_tiles(const ConvProblem& problem, const DeviceInfo& device,
                                          const WindowKernelConfig& unit, const WindowCosts& costs,
                                          Staging wanted);

inline constexpr std::size_t max_units = 8;
/// Returns the unit, of one to max_units, whose tiles have the least predicted time; where none has
/// tiles it returns the first.
WindowKernelConfig choose_unit(const ConvProblem& problem, const DeviceInfo& device,
                               std::span<const WindowKernelConfig> units, const WindowCosts& costs,
                               Staging wanted);

}  // namespace plumb::cuda
