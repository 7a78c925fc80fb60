// Tiles of least predicted time.
#include "cuda_kernels/common/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb::cuda {
namespace {

std::int64_t even_share(std::int64_t extent, std::int64_t most) {
  return tiles_of(extent, tiles_of(extent, std::max<std::int64_t>(most, 1)));
}

double number(std::int64_t value) { return static_cast<double>(value); }

std::size_t to_16(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 15) / 16 * 16); }

constexpr double steps_per_clock = 4 / 6.4;    // of a multiprocessor, by warps: 60 % of its peak
constexpr double issued_per_clock = 4 * 0.65;  // instructions of warps
constexpr double waves_per_clock = 0.8;        // of shared memory
constexpr double clock_hertz = 1.75e9;         // where the device keeps its rate to itself
constexpr double latency_clocks = 3000;        // a tile's first load, its barriers
constexpr std::int64_t most_images = 64;

class Planner {
 public:
  Planner(const ConvProblem& problem, const DeviceInfo& device, const WindowUnit& unit,
          const WindowCosts& costs, Staging wanted)
      : problem_(problem),
        device_(device),
        unit_(unit),
        costs_(costs),
        wanted_(wanted),
        terms_(problem),
        stored_bytes_(static_cast<std::int64_t>(size_in_bytes(problem.dtype))),
        strips_(tiles_of(problem.p(), 2 * unit.row_pairs)),
        windows_(tiles_of(problem.q(), terms_.shifts)) {
    best_.seconds = std::numeric_limits<double>::infinity();
    best_.x_bytes = std::size_t{1} << 30;
  }

  WindowTiles best() {
    for (const std::int64_t columns : {windows_, std::int64_t{128}, std::int64_t{48}})
      if (columns <= windows_) try_strips(even_share(windows_, columns));
    return best_;
  }

 private:
  void try_strips(std::int64_t windows) {
    std::int64_t last = 0;
    for (std::int64_t bands = 1; bands <= strips_; bands += std::max<std::int64_t>(1, bands / 4)) {
      const std::int64_t strips = even_share(strips_, tiles_of(strips_, bands));
      if (strips == last || strips > 64) continue;
      last = strips;
      try_tile(1, strips, windows);
      if (strips == strips_ && windows == windows_)
        for (std::int64_t images = 2; images <= std::min(problem_.n, most_images); images *= 2)
          try_tile(images, strips, windows);
    }
  }

  void try_tile(std::int64_t images, std::int64_t strips, std::int64_t windows) {
    WindowTiles tile;
    tile.images = static_cast<int>(images);
    tile.strips = static_cast<int>(strips);
    tile.windows = static_cast<int>(windows);
    const std::int64_t rows = 2 * unit_.row_pairs * strips;
    const std::int64_t stride_h = problem_.p() > 1 ? problem_.stride.h : 0;
    const std::int64_t x_rows =
        (rows - 1) * stride_h + tiles_of(problem_.r, terms_.segment_rows) * terms_.segment_rows;
    const std::int64_t pitch = window_step * (windows - 1) + terms_.columns;
    const std::int64_t elements = images * problem_.c * x_rows * pitch;
    if (elements > 120 * 1024) return;
    tile.x_rows = static_cast<int>(x_rows);
    tile.pitch = static_cast<int>(pitch);
    tile.column_tiles = tiles_of(windows_, windows);
    tile.bands = tiles_of(strips_, strips);
    tile.image_tiles = tiles_of(std::max<std::int64_t>(problem_.n, 1), images);
    tile.filter_groups = static_cast<int>(
        tiles_of(problem_.k, std::int64_t{terms_.eight_filters()} * unit_.filter_eights));
    tile.x_bytes = to_16(elements * costs_.element_bytes);
    tile.w_bytes =
        to_16(problem_.c * terms_.slots() * unit_.filter_eights * 32 * costs_.slot_bytes);
    consider(tile);
    if (wanted_ == Staging::none) return;
    stage(tile);
    if (tile.staging != Staging::none) consider(tile);
  }

  /// Stretches of memory that begin and end at multiples of 16 bytes.
  void stage(WindowTiles& tile) const {
    const ConvProblem& problem = problem_;
    if (tile.column_tiles > 1) return;
    Strides dense = dense_strides(problem.x_extents());
    for (int i = 0; i < 4; ++i)
      if (problem.x_extents()[i] > 1 && problem.x_strides[i] != dense[i]) return;
    const std::int64_t image_bytes = dense[0] * stored_bytes_;
    const std::int64_t row_bytes = problem.w * stored_bytes_;
    const bool whole = tile.bands == 1;
    if ((whole ? image_bytes : row_bytes) % 16 != 0) return;
    tile.whole_images = whole;
    tile.raw_bytes = to_16(whole ? tile.images * image_bytes : problem.c * tile.x_rows * row_bytes);
    if (tile.raw_bytes < (std::size_t{1} << 18)) tile.staging = wanted_;
  }

  void consider(WindowTiles& tile) {
    constexpr std::size_t of_multiprocessor = 227 << 10, of_system = 1 << 10;
    if (tile.bytes() > device_.shared_memory_bytes) {
      tile.seconds = std::numeric_limits<double>::infinity();
      if (best_.bytes() > device_.shared_memory_bytes && tile.bytes() < best_.bytes()) best_ = tile;
      return;
    }
    const std::size_t available =
        std::max(of_multiprocessor, device_.shared_memory_bytes + of_system);
    tile.blocks =
        static_cast<int>(std::clamp<std::size_t>(available / (tile.bytes() + of_system), 1, 4));
    tile.seconds = seconds(tile);
    if (tile.seconds < best_.seconds) best_ = tile;
  }

  double seconds(const WindowTiles& tile) const {
    const double clock = device_.nominal_fp32_flop_per_second > 0 && device_.units > 0
                             ? device_.nominal_fp32_flop_per_second / 256 / device_.units
                             : clock_hertz;
    const double units = std::max(device_.units, 1);
    const double tasks =
        std::ceil(number(std::int64_t{tile.images} * tile.strips * tile.windows) / 8);
    const double pairs = unit_.row_pairs, eights = unit_.filter_eights;
    const double slots = number(problem_.c) * terms_.segments / 2.0;
    const double row_waves = costs_.element_bytes / 2.0;
    const bool stays = terms_.segment_rows == 1 && !terms_.wide() && problem_.stride.h == 1;
    const double rows_read = number(problem_.c) * (stays ? 2 * pairs + terms_.segments - 1
                                                         : 2 * pairs * terms_.segments);
    const double steps = slots * pairs * eights * costs_.steps_of_slot;
    const double w_waves = slots * eights * costs_.slot_bytes / 4;
    const double waves = tasks * (rows_read * row_waves + w_waves);
    // As counted in the machine code.
    const double issued = tasks * (steps + 5 * rows_read + slots * (eights + 4) + 90 +
                                   pairs * eights * (terms_.shifts == 2 ? 26 : 34));
    const double elements =
        number(std::int64_t{tile.images} * problem_.c * tile.x_rows) * tile.pitch;
    const bool runs = tile.column_tiles == 1 && problem_.padding.left == 0 &&
                      tile.pitch == problem_.w;  // that are loaded in fours
    const double of_pair = (runs ? 22 : 50) + (costs_.scaled ? (runs ? 25 : 40) : 0);
    const double loading = elements / 64 * of_pair / issued_per_clock;
    const double product = std::max(
        {tasks * steps / steps_per_clock, waves / waves_per_clock, issued / issued_per_clock});
    const double rounds = std::ceil(tasks / window_warps) * window_warps / tasks;
    const double alone = 1.5 * product * rounds + loading * 1.5 +
                         latency_clocks * (tile.staging == Staging::none ? 1 : 0.5);
    const double blocks = tile.blocks;
    const double per_tile = std::max(product + loading, alone / blocks);
    const double items = number(tile.items()) * tile.filter_groups;
    const double filters = number(problem_.c) * terms_.slots() * eights * 32 / window_threads * 60 *
                           window_warps / issued_per_clock;
    const double full_rounds = items / (units * blocks);
    const double waits = full_rounds > 4 ? full_rounds : std::ceil(full_rounds);
    const double busy = (waits * blocks * per_tile + filters * blocks) / clock;
    const double moved = device_.nominal_bytes_per_second > 0
                             ? problem_.bytes() / (0.88 * device_.nominal_bytes_per_second)
                             : 0;
    return std::max(busy, moved) + 0.1 * std::min(busy, moved) + 2e-6;
  }

  const ConvProblem& problem_;
  const DeviceInfo& device_;
  WindowUnit unit_;
  WindowCosts costs_;
  Staging wanted_;
  WindowTerms terms_;
  std::int64_t stored_bytes_, strips_, windows_;
  WindowTiles best_;
};

}  // namespace

WindowTerms::WindowTerms(const ConvProblem& problem)
    : shifts(problem.q() > 1 && problem.stride.w > 1 ? 1 : 2) {
  const auto taps = static_cast<int>(problem.s) + shifts - 1, rows = static_cast<int>(problem.r);
  columns = taps <= 2 ? 2 : taps <= 4 ? 4 : taps <= 8 ? 8 : 16;
  segment_rows = columns < 8 ? 8 / columns : 1;
  segments = columns > 8 ? 2 * rows : (rows - 1) / segment_rows + 1;
  // In (rows, columns), put together by the kernel once the pitch is known.
  second = columns > 8 ? 0 : segment_rows;
  pair = columns > 8 ? 1 : 2 * segment_rows;
}

Support windows_fit(const ConvProblem& problem) {
  if (problem.groups != 1)
    return {Reason::geometry, fmt::format("{} groups; expected 1", problem.groups)};
  if ((problem.r > 1 && problem.dilation.h != 1) || (problem.s > 1 && problem.dilation.w != 1))
    return {Reason::geometry,
            fmt::format("dilation {}x{}; expected none", problem.dilation.h, problem.dilation.w)};
  if (problem.q() > 1 && problem.stride.w > 2)
    return {Reason::geometry,
            fmt::format("a stride of {} columns; expected 1 or 2", problem.stride.w)};
  if (problem.pool != Pool::none && problem.stride.w > 1)
    return {Reason::geometry,
            fmt::format("pools at a stride of {} columns; expected 1", problem.stride.w)};
  if (problem.s > widest_filter)
    return {Reason::geometry,
            fmt::format("filters {} wide; expected at most {}", problem.s, widest_filter)};
  return {};
}

std::size_t WindowTiles::bytes() const {
  return window_control_bytes + w_bytes + x_bytes + raw_bytes;
}

WindowTiles plan_windows(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowUnit& unit, const WindowCosts& costs, Staging wanted) {
  return Planner(problem, device, unit, costs, wanted).best();
}

}  // namespace plumb::cuda
