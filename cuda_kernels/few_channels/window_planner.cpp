// The planner finds the tiles of the least predicted time.
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "cuda_kernels/cost/scattered.hpp"
#include "cuda_kernels/cost/window_model.hpp"

namespace plumb::cuda {
namespace {

std::int64_t even_share(std::int64_t extent, std::int64_t most) {
  return ceil_div(extent, ceil_div(extent, std::max<std::int64_t>(most, 1)));
}

std::size_t to_16(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 15) / 16 * 16); }

constexpr std::int64_t max_images = 64;

class Planner {
 public:
  Planner(const ConvProblem& problem, const DeviceInfo& device, const WindowKernelConfig& unit,
          const WindowCosts& costs, Staging wanted, std::vector<WindowTiles>* all = nullptr)
      : problem_(plane_of(problem)),
        depth_(problem),
        channels_(product_channels(problem)),
        device_(device),
        unit_(unit),
        costs_(costs),
        wanted_(wanted),
        terms_(problem, unit),
        stored_bytes_(static_cast<std::int64_t>(size_in_bytes(problem.dtype))),
        strips_(ceil_div(problem.p(), unit.strip_rows())),
        windows_(ceil_div(problem.q(), terms_.shifts)),
        filter_strips_(unit.streams ? FilterStrips(problem, unit, costs) : FilterStrips()),
        model_(problem, device, unit, costs),
        all_(all) {
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
      const std::int64_t strips = even_share(strips_, ceil_div(strips_, bands));
      if (strips == last || strips > 64) continue;
      last = strips;
      try_tile(1, strips, windows);
      if (!depth_.of_volumes && (strips < strips_ || windows < windows_)) continue;
      if (!depth_.follow()) continue;
      // Planes of a volume share those of x under them, whatever stretch of rows and columns a tile
      // has; of images that share nothing a tile has several where it has them whole.
      const std::int64_t most = std::min(depth_.outputs, max_images);
      for (std::int64_t images = 2; images <= most; images *= 2) {
        try_tile(images, strips, windows);
        if (depth_.of_volumes && images * 3 / 2 <= most) try_tile(images * 3 / 2, strips, windows);
      }
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
        unit_.streams ? filter_strips_.reach
                      : ceil_div(problem_.r, terms_.segment_rows) * terms_.segment_rows;
    const std::int64_t x_rows = (rows - 1) * stride_h + reach;
    const std::int64_t pitch = window_step * (windows - 1) + terms_.columns;
    const std::int64_t elements = depth_.under(images) * problem_.c * x_rows * pitch;
    if (elements > 120 * 1024) return;
    tile.x_rows = static_cast<int>(x_rows);
    tile.pitch = static_cast<int>(pitch);
    tile.column_tiles = ceil_div(windows_, windows);
    tile.bands = ceil_div(strips_, strips);
    tile.image_tiles = ceil_div(std::max<std::int64_t>(depth_.outputs, 1), images);
    tile.volumes = std::max<std::int64_t>(depth_.volumes, 1);
    tile.filter_groups = static_cast<int>(
        ceil_div(problem_.k, std::int64_t{terms_.eight_filters()} * unit_.filter_n8_tiles));
    tile.x_bytes = to_16(elements * costs_.element_bytes);
    tile.row_lanes_bits = RowLanes(pitch, model_.in_place()).bits;
    if (unit_.streams) return try_streams(tile);
    tile.w_bytes =
        to_16(channels_ * terms_.k_steps() * unit_.filter_n8_tiles * 32 * costs_.k_step_bytes);
    try_outputs(tile);
  }

  /// Tries all filters in shared memory, and pipeline stages for k tiles of them.
  void try_streams(WindowTiles tile) {
    constexpr std::int64_t stages_bytes = 64 << 10;
    const std::int64_t k_steps = filter_strips_.k_steps();
    const std::int64_t k_step_bytes =
        std::int64_t{unit_.filter_n8_tiles} * 32 * costs_.k_step_bytes;
    tile.table_bytes = static_cast<std::size_t>((filter_strips_.count + FilterStrips::ahead) *
                                                FilterStrips::table_bytes);
    tile.k_tile_strips = filter_strips_.count;
    tile.filter_strips = filter_strips_;
    tile.bulk_filters = wanted_ == Staging::bulk;
    tile.w_bytes = static_cast<std::size_t>(k_steps * k_step_bytes);
    if (tile.w_bytes < device_.shared_memory_bytes) try_outputs(tile);
    // Warps that make one row take two filter strips at a time.
    const std::int64_t at_once = unit_.fragments == 1 ? 2 : 1;
    const std::int64_t bytes_at_once = at_once * filter_strips_.length * k_step_bytes;
    std::int64_t last = 0;
    for (const std::int64_t k_tile_bytes : {16 << 10, 24 << 10, 32 << 10, 48 << 10}) {
      const std::int64_t some = std::max<std::int64_t>(k_tile_bytes / bytes_at_once, 1);
      if (some == last) continue;
      last = some;
      tile.k_tile_strips = static_cast<int>(some * at_once);
      tile.k_tiles = static_cast<int>(ceil_div(filter_strips_.count, tile.k_tile_strips));
      const std::int64_t of_k_tile = some * bytes_at_once;
      tile.filter_stages = static_cast<int>(
          std::clamp<std::int64_t>(stages_bytes / of_k_tile, 3, max_window_stages));
      tile.w_bytes = static_cast<std::size_t>(tile.filter_stages * of_k_tile);
      if (tile.k_tiles > tile.filter_stages) try_outputs(tile);
    }
  }

  /// Tries outputs that are written as they are made, and outputs that are gathered.
  void try_outputs(WindowTiles tile) {
    tile.whole_sectors = model_.stores_whole_sectors(tile);
    consider_threads(tile);
    // Where filters are many, gathering their outputs never was the faster on an H200.
    if (tile.whole_sectors || unit_.streams || !model_.columns_follow()) return;
    tile.bulk_stores = wanted_ == Staging::bulk;
    gather(tile);
    consider_threads(tile);
  }

  /// Tries each size of block, and all ways of staging.
  void consider_threads(WindowTiles tile) {
    WindowTiles staged = tile, ahead = tile;
    stage(staged);
    if (model_.in_place()) {
      ahead.staging = Staging::ahead;
      ahead.x_bytes *= 2;
    }
    for (int threads = unit_.streams ? 128 : 256;;
         threads = threads == 128 ? 256 : unit_.max_threads()) {
      tile.threads = staged.threads = ahead.threads = threads;
      consider(tile);
      for (WindowTiles* const way : {&staged, &ahead})
        if (way->staging != Staging::none) consider(*way);
      if (threads == unit_.max_threads()) break;
    }
  }

  /// Gives the tile's outputs a place in shared memory.
  void gather(WindowTiles& tile) const {
    constexpr std::int64_t banks = 32, bank_bytes = 4;
    const Extents y = problem_.y_extents();
    const std::int64_t vector = 16 / stored_bytes_;
    const bool follow = tile.column_tiles == 1 && (y[2] == 1 || problem_.y_strides[2] == y[3]);
    // A run begins up to `vector` - 1 elements behind the multiple of 16 bytes before it.
    tile.y_row_pitch =
        static_cast<int>(follow ? 0 : ceil_div(model_.columns(tile) + vector - 1, vector) * vector);
    const std::int64_t elements =
        follow ? model_.rows(tile) * y[3] + vector - 1 : model_.rows(tile) * tile.y_row_pitch;
    // Four filters' pieces of a row, 8 banks each, should lie in different banks.
    const std::int64_t in_banks = ceil_div(elements * stored_bytes_, bank_bytes);
    const std::int64_t pitch = in_banks <= 8 ? 8 : 8 + ceil_div(in_banks - 8, banks) * banks;
    tile.y_pitch = static_cast<int>(pitch * bank_bytes / stored_bytes_);
    tile.y_bytes = to_16(tile.images * model_.filters() * pitch * bank_bytes);
  }

  /// Stages the input in the longest stretches of neighbours in x that there are.
  void stage(WindowTiles& tile) const {
    const Extents x = problem_.x_extents();
    const Strides dense = dense_strides(x);
    const auto is_dense = [&](int i) { return x[i] == 1 || problem_.x_strides[i] == dense[i]; };
    if (wanted_ == Staging::none || tile.column_tiles > 1 || !is_dense(3) || !is_dense(2)) return;
    if (depth_.of_volumes) return;  // a tile's planes are no stretch of x
    for (int i = 0; i < 2; ++i)
      if (x[i] > 1 && problem_.x_strides[i] < 0) return;
    tile.whole_images = tile.bands == 1 && is_dense(1) && is_dense(0);
    if (tile.images > 1 && !tile.whole_images) return;
    const std::int64_t length =
        tile.whole_images ? tile.images * dense[0] : tile.x_rows * problem_.w;
    // A stretch that begins and ends anywhere lies in up to two more pieces of 16 bytes.
    const std::int64_t sixteen = 16 / stored_bytes_;
    const std::int64_t raw_pitch = (ceil_div(length, sixteen) + 1) * sixteen;
    const std::int64_t bytes = raw_pitch * stored_bytes_ * (tile.whole_images ? 1 : problem_.c);
    if (bytes >= std::int64_t{1} << 18) return;
    tile.raw_pitch = static_cast<int>(raw_pitch);
    tile.raw_bytes = to_16(bytes);
    tile.staging = wanted_;
  }

  void consider(WindowTiles& tile) {
    constexpr std::size_t of_system = 1 << 10;  // bytes that the system takes for each block
    if (tile.bytes() > device_.shared_memory_bytes) {
      tile.seconds = std::numeric_limits<double>::infinity();
      if (best_.bytes() > device_.shared_memory_bytes && tile.bytes() < best_.bytes()) best_ = tile;
      return;
    }
    // A multiprocessor has as much shared memory as the largest block takes.
    const std::size_t available = device_.shared_memory_bytes + of_system;
    tile.blocks = static_cast<int>(std::clamp<std::size_t>(available / (tile.bytes() + of_system),
                                                           1, unit_.warps() * 32 / tile.threads));
    tile.seconds = model_.seconds(tile);
    if (all_) all_->push_back(tile);
    if (tile.seconds < best_.seconds) best_ = tile;
  }

  ConvProblem problem_;  ///< of a plane
  WindowDepth depth_;
  std::int64_t channels_;  ///< of the product
  const DeviceInfo& device_;
  WindowKernelConfig unit_;
  WindowCosts costs_;
  Staging wanted_;
  WindowTerms terms_;
  std::int64_t stored_bytes_, strips_, windows_;
  FilterStrips filter_strips_;
  WindowModel model_;
  std::vector<WindowTiles>* all_;  ///< where all tiles are kept; null: nowhere
  WindowTiles best_;
};

}  // namespace

WindowTiles plan_windows(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowKernelConfig& unit, const WindowCosts& costs, Staging wanted) {
  WindowTiles tiles = Planner(problem, device, unit, costs, wanted).best();
  // Lanes of a product have eight pixels and every second of eight filters.
  constexpr double filters_of_store = 4;
  const WindowModel model(problem, device, unit, costs);
  tiles.seconds = model.expected_seconds(tiles) +
                  scattered_seconds(problem, Machine(device), filters_of_store) +
                  gathered_seconds(problem, Machine(device), model.loaded_elements(tiles));
  return tiles;
}

std::vector<WindowTiles> all_window_tiles(const ConvProblem& problem, const DeviceInfo& device,
                                          const WindowKernelConfig& unit, const WindowCosts& costs,
                                          Staging wanted) {
  std::vector<WindowTiles> all;
  Planner(problem, device, unit, costs, wanted, &all).best();
  std::stable_sort(all.begin(), all.end(), [](const WindowTiles& a, const WindowTiles& b) {
    return a.seconds < b.seconds;
  });
  return all;
}

WindowKernelConfig choose_unit(const ConvProblem& problem, const DeviceInfo& device,
                               std::span<const WindowKernelConfig> units, const WindowCosts& costs,
                               Staging wanted) {
  if (units.size() == 1) return units.front();
  const auto seconds = [&](const WindowKernelConfig& unit) {
    return Planner(problem, device, unit, costs, wanted).best().seconds;
  };
  WindowKernelConfig best = units.front();
  double least = seconds(best);
  for (const WindowKernelConfig& unit : units.subspan(1))
    if (const double time = seconds(unit); time < least) best = unit, least = time;
  return best;
}

}  // namespace plumb::cuda
