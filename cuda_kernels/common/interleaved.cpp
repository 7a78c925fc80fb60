#include "cuda_kernels/common/interleaved.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "cuda_kernels/common/packed_header.hpp"
#include "cuda_kernels/common/remembered.hpp"
#include "cuda_kernels/common/tiles.hpp"

namespace plumb::cuda {
namespace {

/// Of channels that fill no record: the taps of it that need the fewest of them.
RecordPlane plane_of(int first_c, int channels, int tap_rows, int tap_columns) {
  int taps = 1;
  while (2 * taps * channels <= 8) taps *= 2;
  RecordPlane best{first_c, channels, 1, taps};
  std::int64_t least = 0;
  for (int columns = taps; columns >= 1; columns /= 2) {
    const std::int64_t count = tiles_of(tap_rows, taps / columns) * tiles_of(tap_columns, columns);
    if (least != 0 && count >= least) continue;
    least = count;
    best = {first_c, channels, taps / columns, columns};
  }
  return best;
}

/// Clocks of roles that work side by side, and take from each other: of two that need as long each,
/// 1.3 times that.
double together(std::initializer_list<double> clocks) {
  constexpr double power = 2.55;
  double sum = 0;
  for (const double each : clocks) sum += std::pow(each, power);
  return std::pow(sum, 1 / power);
}

/// Of an image, whatever tiles it is cut to.
double image_clocks(const InterleavedLayout& layout, const ConvProblem& problem,
                    const InterleavedCosts& costs) {
  int most_s = 0;
  for (const Record& of : layout.records) most_s = std::max(most_s, of.s / layout.stride_w);
  const auto places = static_cast<double>(tiles_of(problem.p(), layout.rows) *
                                          (tiles_of(problem.q(), layout.columns) + most_s));
  return places * layout.groups *
         together({costs.of_slot * layout.slots / interleaved_columns,
                   costs.of_record * static_cast<double>(layout.sheets.size()),
                   costs.of_pass / interleaved_columns});
}

}  // namespace

InterleavedLayout::InterleavedLayout(const ConvProblem& problem, const InterleavedCosts& costs,
                                     int output_rows, int output_columns)
    : rows(output_rows),
      columns(output_columns),
      row_stride(static_cast<int>(problem.p() > 1 ? problem.stride.h : 1)),
      column_stride(static_cast<int>(problem.q() > 1 ? problem.stride.w : 1)),
      stride_h(rows * row_stride),
      stride_w(columns * column_stride),
      group_filters(interleaved_rows / (rows * columns)),
      groups(static_cast<int>(tiles_of(problem.k, group_filters))),
      slot_bytes(costs.slot_bytes()) {
  const int c = static_cast<int>(problem.c);
  // That outputs read.
  const int tap_rows = static_cast<int>(problem.r) + (rows - 1) * row_stride;
  const int tap_columns = static_cast<int>(problem.s) + (columns - 1) * column_stride;
  for (int first = 0; first < c; first += 8)
    planes.push_back(plane_of(first, std::min(c - first, 8), tap_rows, tap_columns));
  for (std::size_t i = 0; i < planes.size(); ++i)
    for (int r = 0; r < tap_rows; r += planes[i].taps_h)
      for (int s = 0; s < tap_columns; s += planes[i].taps_w) {
        const Sheet sheet{static_cast<int>(i), r % stride_h, s % stride_w};
        auto at = std::find(sheets.begin(), sheets.end(), sheet);
        if (at == sheets.end()) at = sheets.insert(at, sheet);
        records.push_back({static_cast<int>(at - sheets.begin()), r, s});
      }
  // Ascending: the second record of a slot is so far behind its first, in any tile.
  const auto place = [&](const Record& of) {
    return std::array{of.sheet, of.r / stride_h, of.s / stride_w};
  };
  std::sort(records.begin(), records.end(),
            [&](const Record& a, const Record& b) { return place(a) < place(b); });
  slots = static_cast<int>(tiles_of(static_cast<std::int64_t>(records.size()), 2));
  packed_slots = static_cast<int>(tiles_of(slots, costs.slice_slots())) * costs.slice_slots();
}

InterleavedLayout::InterleavedLayout(const ConvProblem& problem, const InterleavedCosts& costs)
    : InterleavedLayout(problem, costs, 1, 1) {
  const auto clocks = [&](const InterleavedLayout& of) { return image_clocks(of, problem, costs); };
  for (int beside = 1; beside <= most_output_columns && beside <= problem.q(); beside *= 2)
    for (int below = 1; below <= most_output_rows && below <= problem.p(); below *= 2) {
      // Of tiles, rows and columns that are not there are multiplied too: a few per cent are not
      // worth it.
      if (InterleavedLayout other(problem, costs, below, beside);
          other.groups <= groups && other.sheets.size() <= most_sheets &&
          clocks(other) < 0.97 * clocks(*this))
        *this = std::move(other);
    }
}

std::size_t InterleavedLayout::group_bytes() const {
  return packed_header_bytes +
         static_cast<std::size_t>(packed_slots) * static_cast<std::size_t>(slot_bytes);
}

int InterleavedTiles::span() const {
  return ((images - 1) * sheet_rows + rows - 1) * pitch + columns;
}
std::int64_t InterleavedTiles::bytes() const {
  return interleaved_control_bytes + stage_bytes + w_bytes() + 2 * x_bytes + slack_bytes +
         line_bytes;
}
std::int64_t InterleavedTiles::items(const ConvProblem& problem) const {
  return tiles_of(problem.n, images) * bands * column_tiles;
}

namespace {

/// Tiles of a problem, and the time that they take.
class Planner {
 public:
  Planner(const ConvProblem& problem, const DeviceInfo& device, const InterleavedLayout& layout,
          const InterleavedCosts& costs)
      : problem_(problem),
        layout_(layout),
        costs_(costs),
        limit_(static_cast<std::int64_t>(device.shared_memory_bytes)),
        units_(std::max(device.units, 1)),
        clocks_per_second_(clock_share * device.nominal_fp32_flop_per_second / flop_per_clock /
                           units_),
        place_rows_(tiles_of(problem.p(), layout.rows)),
        place_columns_(tiles_of(problem.q(), layout.columns)) {
    for (const Record& of : layout.records) {
      most_r_ = std::max(most_r_, of.r / layout.stride_h);
      most_s_ = std::max(most_s_, of.s / layout.stride_w);
    }
  }

  InterleavedTiles best() {
    for (std::int64_t column_tiles = 1;;) {
      for (std::int64_t bands = 1;;) {
        consider(1, bands, column_tiles);
        if (bands == 1 && column_tiles == 1) consider_images();
        const std::int64_t rows = tiles_of(place_rows_, bands);
        if (rows == 1) break;
        bands = tiles_of(place_rows_, rows - std::max<std::int64_t>(1, rows > 16 ? rows / 8 : 1));
      }
      const std::int64_t columns = tiles_of(place_columns_, column_tiles);
      if (columns <= 8) break;
      column_tiles = tiles_of(place_columns_, columns - std::max<std::int64_t>(1, columns / 16));
    }
    return best_;
  }

 private:
  // What tensor cores leave of the nominal clock (one H200).
  static constexpr double clock_share = 0.86, flop_per_clock = 256;

  void consider_images() {
    constexpr int most_images = 64;
    for (int images = 2; images <= most_images && images <= problem_.n;
         images += images < 8 ? 1 : images / 4)
      consider(images, 1, 1);
  }

  /// Gives a tile its shared memory; whether there is enough.
  bool fit(InterleavedTiles& tile, bool streams) const {
    const auto sheets = static_cast<std::int64_t>(layout_.sheets.size());
    const std::int64_t lines = sheets * tile.images * tile.sheet_rows;
    if (lines * tile.pitch > limit_ / (2 * costs_.record_bytes())) return false;
    tile.x_bytes = costs_.record_bytes() * lines * tile.pitch;
    tile.line_bytes = 16 * lines;
    if (!streams) {
      tile.place_bytes = layout_.slots * layout_.slot_bytes;
      return tile.bytes() <= limit_;
    }
    tile.place_bytes = slice_bytes;
    tile.slices = layout_.packed_slots / costs_.slice_slots();
    tile.places = std::min(most_places, tile.slices);
    while (tile.places >= least_places && tile.bytes() > limit_) --tile.places;
    return tile.places >= least_places;
  }

  void consider(int images, std::int64_t bands, std::int64_t column_tiles) {
    InterleavedTiles tile;
    tile.images = images;
    tile.rows = static_cast<int>(tiles_of(place_rows_, bands));
    tile.columns = static_cast<int>(tiles_of(place_columns_, column_tiles));
    tile.bands = static_cast<int>(tiles_of(place_rows_, tile.rows));
    tile.column_tiles = static_cast<int>(tiles_of(place_columns_, tile.columns));
    tile.pitch = tile.columns + most_s_;
    tile.sheet_rows = tile.rows + most_r_;
    for (const bool streams : {false, true}) {
      InterleavedTiles fitted = tile;
      if (!fit(fitted, streams)) continue;
      fitted.seconds = clocks(fitted) * rounds(fitted) / clocks_per_second_;
      if (best_.seconds == 0 || fitted.seconds < best_.seconds) best_ = fitted;
    }
  }

  double rounds(const InterleavedTiles& tile) const {
    const double items = static_cast<double>(tile.items(problem_)) * layout_.groups / units_;
    return std::max(items + 0.5, std::ceil(items));
  }

  /// Of a multiprocessor, for one tile. A fit of 1,761 tiles of 197
  /// convolutions, measured one by one on one H200: to 8 % in the root mean square for the tiles
  /// taken of those that this kernel makes as fast as others.
  double clocks(const InterleavedTiles& tile) const {
    const auto number = [](auto value) { return static_cast<double>(value); };
    const double passes = number(tiles_of(tile.span(), interleaved_columns));
    const double multiplying = passes * (costs_.of_slot * layout_.slots +
                                         (tile.streams() ? costs_.of_slice * tile.slices : 0));
    // One of the warps that bring feeds filters that stream.
    const double bringing =
        number(tile.x_bytes) / costs_.record_bytes() *
            (tile.streams() ? costs_.of_record_beside_stream : costs_.of_record) +
        costs_.of_plane * number(layout_.planes.size());
    const double writing = costs_.of_pass * passes;
    const bool whole_rows = tile.column_tiles == 1;
    const double written_run =
        whole_rows ? interleaved_columns : std::min(tile.columns, interleaved_columns);
    const double read_run = whole_rows ? 256 : tile.pitch * layout_.stride_w;
    const double written = number(tile.images) * tile.rows * layout_.rows * tile.columns *
                           layout_.columns *
                           number(std::min<std::int64_t>(problem_.k, layout_.group_filters));
    const double read =
        number(tile.sheet_records()) * number(problem_.c) * layout_.stride_h * layout_.stride_w;
    const double moving = 0.043 * costs_.stored_bytes *
                          (written * (problem_.q() % 8 != 0 ? 1.25 : 1) * (1 + 24 / written_run) +
                           read * (1 + 12 / read_run));
    return together({multiplying, bringing, writing, moving}) + 450;
  }

  const ConvProblem& problem_;
  const InterleavedLayout& layout_;
  const InterleavedCosts& costs_;
  std::int64_t limit_;
  int units_;
  double clocks_per_second_;
  std::int64_t place_rows_, place_columns_;
  int most_r_ = 0, most_s_ = 0;
  InterleavedTiles best_;
};

/// All that a plan follows from.
struct Asked {
  ConvProblem problem;
  InterleavedCosts costs;
  DeviceId device;
  int units;
  std::size_t shared_memory_bytes;
  double flop_per_second;
  friend bool operator==(const Asked&, const Asked&) = default;
};

}  // namespace

InterleavedPlan plan_interleaved(const ConvProblem& problem, const DeviceInfo& device,
                                 const InterleavedCosts& costs) {
  thread_local Remembered<Asked, InterleavedPlan> remembered;
  return remembered.get({problem, costs, device.id, device.units, device.shared_memory_bytes,
                         device.nominal_fp32_flop_per_second},
                        [&] {
                          InterleavedLayout layout(problem, costs);
                          const InterleavedTiles tile =
                              Planner(problem, device, layout, costs).best();
                          return InterleavedPlan{std::move(layout), tile};
                        });
}

}  // namespace plumb::cuda
