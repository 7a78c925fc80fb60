// Tiles of least predicted time.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "cuda_kernels/common/windows.hpp"

namespace plumb::cuda {
namespace {

std::int64_t even_share(std::int64_t extent, std::int64_t most) {
  return tiles_of(extent, tiles_of(extent, std::max<std::int64_t>(most, 1)));
}

/// Of times that overlap: a little more than the longest.
double most_of(std::initializer_list<double> times) {
  double sum = 0;
  for (const double time : times) sum += time * time * time * time;
  return std::sqrt(std::sqrt(sum));
}

double number(std::int64_t value) { return static_cast<double>(value); }

std::size_t to_16(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 15) / 16 * 16); }

// Fitted to 4,700 tiles of eleven convolutions on an H200: what a multiprocessor does in a clock
// where nothing else holds it up, and clocks of latency. Instructions are those of warps.
constexpr double issued_per_clock = 2.08;
constexpr double steps_per_clock = 4 / 7.05;
// A warp's share of a product of four warps, for each eight columns.
constexpr double warpgroup_steps_per_clock = 4 / 4.2;
constexpr double waves_per_clock = 0.72;  // of shared memory
constexpr double clocks_to_next = 1.88;   // from an instruction to the next of the same warp
constexpr double clocks_of_task = 20, clocks_of_tile = 1200;
constexpr double clocks_of_load = 985;  // of what a thread reads from memory at once
constexpr double of_one_block = 1.18;   // as much time where no other block fills the gaps
// Of streamed filters: bytes that come from L2, and from a slot's reads to its products' end; and
// how much longer they take beside the others' estimates, of 180 convolutions with the tiles taken.
constexpr double streamed_per_clock = 20, clocks_of_slot = 110, seconds_to_pack = 4e-6;
constexpr double of_streams = 1.08;
constexpr double clock_hertz = 1.98e9;       // where the device keeps its rate to itself
constexpr double share_of_bandwidth = 0.71;  // of the nominal one
// Pieces of memory sectors take so many times as long as whole ones: those that L2 puts together,
// for each sector that they lie in, and those that it has let go before.
constexpr double joined_pieces = 1.33, lost_pieces = 3;
constexpr std::int64_t sector_bytes = 32;
constexpr double joined_bytes = 25e6;  // of outputs under way, that L2 holds

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
        terms_(unit.streams ? WindowTerms::in_pairs(problem) : WindowTerms(problem)),
        stored_bytes_(static_cast<std::int64_t>(size_in_bytes(problem.dtype))),
        strips_(tiles_of(problem.p(), unit.strip_rows())),
        windows_(tiles_of(problem.q(), terms_.shifts)),
        walks_(problem, unit, costs) {
    best_.seconds = std::numeric_limits<double>::infinity();
    best_.x_bytes = std::size_t{1} << 30;
  }

  WindowTiles best() {
    for (const std::int64_t columns : {windows_, std::int64_t{128}, std::int64_t{48}})
      if (columns <= windows_) try_strips(even_share(windows_, columns));
    // Filters that stream leave room for many channels of a narrow tile.
    for (const std::int64_t columns : {64, 32, 16})
      if (unit_.streams && columns < windows_) try_strips(columns);
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
    const std::int64_t rows = unit_.strip_rows() * strips;
    const std::int64_t stride_h = problem_.p() > 1 ? problem_.stride.h : 0;
    const std::int64_t reach =
        unit_.streams ? walks_.reach
                      : tiles_of(problem_.r, terms_.segment_rows) * terms_.segment_rows;
    const std::int64_t x_rows = (rows - 1) * stride_h + reach;
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
    if (unit_.streams) return try_streams(tile);
    tile.w_bytes =
        to_16(problem_.c * terms_.slots() * unit_.filter_eights * 32 * costs_.slot_bytes);
    try_outputs(tile);
  }

  /// With all filters in shared memory, and with a ring of slices of them.
  void try_streams(WindowTiles tile) {
    constexpr std::int64_t slice_bytes = 16 << 10, ring_bytes = 64 << 10;
    const std::int64_t slots = walks_.slots();
    const std::int64_t slot_bytes = std::int64_t{unit_.filter_eights} * 32 * costs_.slot_bytes;
    tile.table_bytes = static_cast<std::size_t>(walks_.count * WindowWalks::table_bytes);
    tile.slice_walks = walks_.count;
    tile.slice_slots = static_cast<int>(slots);
    tile.w_bytes = static_cast<std::size_t>(slots * slot_bytes);
    if (tile.w_bytes < device_.shared_memory_bytes) try_outputs(tile);
    // Warps that make one row take two walks at a time.
    const std::int64_t at_once = unit_.fragments == 1 ? 2 : 1;
    const std::int64_t bytes_at_once = at_once * walks_.length * slot_bytes;
    tile.slice_walks =
        static_cast<int>(std::max<std::int64_t>(slice_bytes / bytes_at_once, 1) * at_once);
    tile.slice_slots = tile.slice_walks * walks_.length;
    tile.slices = static_cast<int>(tiles_of(slots, tile.slice_slots));
    tile.ring = static_cast<int>(
        std::clamp<std::int64_t>(ring_bytes / (tile.slice_slots * slot_bytes), 3, most_ring));
    tile.w_bytes = static_cast<std::size_t>(tile.ring * tile.slice_slots * slot_bytes);
    if (tile.slices > tile.ring) try_outputs(tile);
  }

  /// As they are made, and gathered.
  void try_outputs(WindowTiles tile) {
    tile.whole_sectors = stores_whole_sectors(tile);
    consider_threads(tile);
    // Where filters are many, gathering their outputs never was the faster on an H200.
    if (tile.whole_sectors || unit_.streams || !columns_follow()) return;
    tile.bulk_stores = wanted_ == Staging::bulk;
    gather(tile);
    consider_threads(tile);
  }

  /// With each size of block, not staged and staged.
  void consider_threads(WindowTiles tile) {
    WindowTiles staged = tile;
    stage(staged);
    for (int threads = unit_.streams ? 128 : 256;;
         threads = threads == 128 ? 256 : unit_.most_threads()) {
      tile.threads = staged.threads = threads;
      consider(tile);
      if (staged.staging != Staging::none) consider(staged);
      if (threads == unit_.most_threads()) break;
    }
  }

  std::int64_t stored_side() const { return problem_.pool == Pool::none ? 1 : 2; }
  /// Of what a tile stores.
  std::int64_t columns(const WindowTiles& tile) const {
    return std::max<std::int64_t>(tile.windows * terms_.shifts / stored_side(), 1);
  }
  std::int64_t rows(const WindowTiles& tile) const {
    return std::min<std::int64_t>(unit_.strip_rows() * tile.strips / stored_side(),
                                  problem_.y_extents()[2]);
  }
  std::int64_t filters() const {
    return std::min<std::int64_t>(terms_.eight_filters() * unit_.filter_eights, problem_.k);
  }
  /// Whether outputs of a row are neighbours in y.
  bool columns_follow() const { return problem_.y_extents()[3] == 1 || problem_.y_strides[3] == 1; }
  /// Whether steps from image to image, filter to filter and row to row of y are multiples of it.
  bool steps_of(std::int64_t multiple) const {
    const Extents y = problem_.y_extents();
    for (int i = 0; i < 3; ++i)
      if (y[i] > 1 && problem_.y_strides[i] % multiple != 0) return false;
    return true;
  }

  /// Outputs of a row that a warp stores.
  std::int64_t warp_columns() const { return unit_.warp_windows() * terms_.shifts / stored_side(); }
  /// Whether what warps make are whole sectors of y.
  bool stores_whole_sectors(const WindowTiles& tile) const {
    const std::int64_t sector = sector_bytes / stored_bytes_;
    return columns_follow() && warp_columns() % sector == 0 && columns(tile) % sector == 0 &&
           steps_of(sector);
  }

  /// A place for the tile's outputs.
  void gather(WindowTiles& tile) const {
    constexpr std::int64_t banks = 32, bank_bytes = 4;
    const Extents y = problem_.y_extents();
    const std::int64_t vector = 16 / stored_bytes_;
    const bool follow = tile.column_tiles == 1 && (y[2] == 1 || problem_.y_strides[2] == y[3]);
    // A run begins up to a vector less one behind the multiple of 16 bytes before it.
    tile.y_row_pitch =
        static_cast<int>(follow ? 0 : tiles_of(columns(tile) + vector - 1, vector) * vector);
    const std::int64_t elements =
        follow ? rows(tile) * y[3] + vector - 1 : rows(tile) * tile.y_row_pitch;
    // Four filters' pieces of a row, 8 banks each, should lie in different banks.
    const std::int64_t in_banks = tiles_of(elements * stored_bytes_, bank_bytes);
    const std::int64_t pitch = in_banks <= 8 ? 8 : 8 + tiles_of(in_banks - 8, banks) * banks;
    tile.y_pitch = static_cast<int>(pitch * bank_bytes / stored_bytes_);
    tile.y_bytes = to_16(tile.images * filters() * pitch * bank_bytes);
  }

  /// How many times as long writing takes as if it were of whole sectors.
  double writing(const WindowTiles& tile) const {
    if (tile.whole_sectors || tile.y_pitch > 0) return 1;
    const double under_way = number(tile.images * filters() * rows(tile) * columns(tile)) *
                             static_cast<double>(stored_bytes_) * tile.blocks * device_.units;
    const double sectors = number(warp_columns() * stored_bytes_) / sector_bytes;
    return steps_of(2) && under_way < joined_bytes ? joined_pieces * (sectors + 1) / sectors
                                                   : lost_pieces;
  }

  /// In the longest stretches of neighbours in x that there are.
  void stage(WindowTiles& tile) const {
    const Extents x = problem_.x_extents();
    const Strides dense = dense_strides(x);
    const auto is_dense = [&](int i) { return x[i] == 1 || problem_.x_strides[i] == dense[i]; };
    if (wanted_ == Staging::none || tile.column_tiles > 1 || !is_dense(3) || !is_dense(2)) return;
    for (int i = 0; i < 2; ++i)
      if (x[i] > 1 && problem_.x_strides[i] < 0) return;
    tile.whole_images = tile.bands == 1 && is_dense(1) && is_dense(0);
    if (tile.images > 1 && !tile.whole_images) return;
    const std::int64_t length =
        tile.whole_images ? tile.images * dense[0] : tile.x_rows * problem_.w;
    // One that begins and ends anywhere lies in up to two more sixteens.
    const std::int64_t sixteen = 16 / stored_bytes_;
    const std::int64_t raw_pitch = (tiles_of(length, sixteen) + 1) * sixteen;
    const std::int64_t bytes = raw_pitch * stored_bytes_ * (tile.whole_images ? 1 : problem_.c);
    if (bytes >= std::int64_t{1} << 18) return;
    tile.raw_pitch = static_cast<int>(raw_pitch);
    tile.raw_bytes = to_16(bytes);
    tile.staging = wanted_;
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
    tile.blocks = static_cast<int>(std::clamp<std::size_t>(available / (tile.bytes() + of_system),
                                                           1, unit_.warps() * 32 / tile.threads));
    tile.seconds = seconds(tile);
    if (tile.seconds < best_.seconds) best_ = tile;
  }

  /// Instructions that a warp takes for one strip of eight windows and all filters.
  double issued_of_task(const WindowTiles& tile, double steps, double slots) const {
    const double pairs = unit_.fragments, eights = unit_.filter_eights;
    const bool one_by_one = tile.y_pitch == 0 && !steps_of(2);
    const double storing = terms_.shifts == 1 ? 34 : one_by_one ? 70 : 26, own = 45;
    const double again = rows_stay() ? 0 : 4 * pairs;
    if (unit_.streams)
      return slots * (12 + 2 * pairs * costs_.steps_of_slot) + 20 * fragments_read() + own +
             pairs * eights * storing;
    if (unit_.warpgroups)  // every row is kept twice, and every product has an address
      return 1.3 * steps / eights + (2 + 0.9 * costs_.element_bytes) * rows_read() + own +
             pairs * eights * storing;
    return steps + 0.88 * rows_read() + slots * (eights + 4 + again) + own +
           pairs * eights * storing;
  }
  /// Rows of the input that are read once for all rows of the filter.
  bool rows_stay() const {
    return terms_.segment_rows == 1 && !terms_.wide() && problem_.stride.h == 1;
  }
  /// Of streamed filters: what a warp reads for a strip, sixteen windows and pairs at a time.
  double fragments_read() const {
    return number(walks_.count) * (walks_.length + unit_.fragments - 1);
  }
  double rows_read() const {
    const double rows = 2 * unit_.fragments;
    return number(problem_.c) * (rows_stay() ? rows + terms_.segments - 1 : rows * terms_.segments);
  }
  /// Instructions of warps that write what was gathered.
  double issued_to_write(const WindowTiles& tile) const {
    const double stretches = number(tile.images * filters());
    const double of_runs =
        tile.y_row_pitch > 0 ? 110.0 * number(tile.y_pitch / tile.y_row_pitch) * stretches : 0;
    return 10 * number(tile.y_pitch) * stretches / 64 + of_runs;
  }
  /// Whether the tile's rows follow each other as the image's do.
  bool in_fours(const WindowTiles& tile) const {
    return tile.column_tiles == 1 && problem_.padding.left == 0 && tile.pitch == problem_.w;
  }
  /// Times that a thread waits for what it reads from memory.
  double loads(const WindowTiles& tile) const {
    const std::int64_t rows = std::int64_t{tile.images} * problem_.c * tile.x_rows;
    if (in_fours(tile)) return number(tiles_of(rows * tile.pitch, 16 * tile.threads));
    const RowLanes lanes(tile.pitch);
    return number(tiles_of(rows * lanes.count(), tile.threads) * lanes.turns);
  }
  /// Instructions of warps that write the tile's input to its place.
  double issued_to_load(const WindowTiles& tile) const {
    const double rows = number(std::int64_t{tile.images} * problem_.c * tile.x_rows);
    const double warps_of_pairs = rows * tile.pitch / 64;
    const double scaling = costs_.scaled ? 50 * warps_of_pairs : 0;
    if (in_fours(tile)) return 7.5 * warps_of_pairs + scaling;
    if (tile.staging != Staging::none) return 21 * warps_of_pairs + scaling;
    const RowLanes lanes(tile.pitch);
    return rows * lanes.count() / 32 * (40 + 40.0 * lanes.turns) + scaling;
  }

  double seconds(const WindowTiles& tile) const {
    const double clock = device_.nominal_fp32_flop_per_second > 0 && device_.units > 0
                             ? device_.nominal_fp32_flop_per_second / 256 / device_.units
                             : clock_hertz;
    const double units = std::max(device_.units, 1), blocks = tile.blocks;
    const double warps = tile.threads / 32, eights = unit_.filter_eights;
    const double together = unit_.warpgroups ? 4 : 1;  // warps
    const double windows = number(std::int64_t{tile.images} * tile.strips * tile.windows);
    // Warps that share a stream of filters go through all of it.
    const double abreast = unit_.streams ? warps : together;
    const double tasks = std::ceil(windows / unit_.warp_windows() / abreast) * abreast;
    const double tensor_rate = unit_.warpgroups ? warpgroup_steps_per_clock : steps_per_clock;
    const double slots =
        unit_.streams ? walks_.slots() : number(problem_.c) * terms_.segments / 2.0;
    const double steps = slots * unit_.fragments * eights * costs_.steps_of_slot;
    const double of_filters =
        unit_.warpgroups ? steps * 2 / together : slots * eights * costs_.slot_bytes / 4;
    const double rows = unit_.streams ? 4 * fragments_read() : rows_read();
    const double waves = rows * costs_.element_bytes / 2.0 + of_filters;
    const double passes = tasks / warps;
    const double streamed =
        tile.slices > 1 ? passes * slots * eights * 32 * costs_.slot_bytes / streamed_per_clock : 0;
    const double of_task = issued_of_task(tile, steps, slots), loading = issued_to_load(tile);
    const double issued = tasks * of_task + loading + issued_to_write(tile) + 148 * warps;
    // What is shared by the blocks of a multiprocessor, and what each waits for by itself.
    const double shared = most_of(
        {issued / issued_per_clock, tasks * steps / tensor_rate, tasks * waves / waves_per_clock,
         streamed, unit_.streams ? passes * slots * unit_.fragments * clocks_of_slot / blocks : 0});
    const double of_chain =
        unit_.streams ? 0 : clocks_to_next * (of_task + 2 * steps / tensor_rate);
    const double waited = std::ceil(passes) * (clocks_of_task + of_chain) + 2 * loading / warps +
                          clocks_of_tile +
                          (tile.staging == Staging::none ? loads(tile) * clocks_of_load : 0);
    const double per_tile = shared * (tile.blocks == 1 ? of_one_block : 1) + waited / blocks;
    const double items = number(tile.items()) * tile.filter_groups;
    const double packing =
        unit_.streams ? 0 : number(problem_.c) * terms_.slots() * eights * 60 / issued_per_clock;
    const double full_rounds = items / (units * blocks);
    const double rounds = full_rounds > 4 ? full_rounds : std::ceil(full_rounds);
    const double busy = (rounds * blocks * per_tile + packing * blocks) / clock;
    const Extents y = problem_.y_extents();
    const double y_bytes = number(y[0] * y[1] * y[2] * y[3] * stored_bytes_);
    const double moved = device_.nominal_bytes_per_second > 0
                             ? (problem_.bytes() + y_bytes * (writing(tile) - 1)) /
                                   (share_of_bandwidth * device_.nominal_bytes_per_second)
                             : 0;
    const double both = most_of({busy, moved});
    return unit_.streams ? both * of_streams + seconds_to_pack + 2e-6 : both + 2e-6;
  }

  const ConvProblem& problem_;
  const DeviceInfo& device_;
  WindowUnit unit_;
  WindowCosts costs_;
  Staging wanted_;
  WindowTerms terms_;
  std::int64_t stored_bytes_, strips_, windows_;
  WindowWalks walks_;
  WindowTiles best_;
};

/// All that a plan follows from.
struct Asked {
  ConvProblem problem;
  DeviceId device;
  WindowUnit unit;
  WindowCosts costs;
  Staging wanted;
  std::array<double, 4> device_has{};
  friend bool operator==(const Asked&, const Asked&) = default;
};

}  // namespace

WindowTiles plan_windows(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowUnit& unit, const WindowCosts& costs, Staging wanted) {
  // Planning takes microseconds, and is asked for again with every launch of a plan: each thread
  // remembers what it asked for last, for a dozen units and two or three convolutions.
  struct Known {
    Asked asked;
    WindowTiles tile;
  };
  thread_local std::vector<Known> known;
  thread_local std::size_t oldest = 0;
  constexpr std::size_t most_known = 32;
  Asked asked{problem, device.id, unit, costs, wanted};
  asked.device_has = {static_cast<double>(device.units),
                      static_cast<double>(device.shared_memory_bytes),
                      device.nominal_bytes_per_second, device.nominal_fp32_flop_per_second};
  for (const Known& one : known)
    if (one.asked == asked) return one.tile;
  Known now{asked, Planner(problem, device, unit, costs, wanted).best()};
  if (known.size() < most_known)
    known.push_back(now);
  else
    known[oldest++ % most_known] = now;
  return now.tile;
}

}  // namespace plumb::cuda
