// Filters that stay and filters that stream share the geometry of a tile, and the way its input is
// loaded.
#include "cuda_kernels/cost/window_model.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

WindowModel::WindowModel(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowKernelConfig& unit, const WindowCosts& costs)
    : problem_(plane_of(problem)),
      depth_(problem),
      bytes_(problem.bytes()),
      channels_(product_channels(problem)),
      machine_(device),
      few_(cost_tables().few_channels),
      streamed_(cost_tables().streamed_filters),
      unit_(unit),
      costs_(costs),
      terms_(problem, unit),
      stored_bytes_(static_cast<std::int64_t>(size_in_bytes(problem.dtype))) {}

std::int64_t WindowModel::stored_side() const { return problem_.pool == Pool::none ? 1 : 2; }

std::int64_t WindowModel::columns(const WindowTiles& tile) const {
  return std::max<std::int64_t>(tile.windows * terms_.shifts / stored_side(), 1);
}

std::int64_t WindowModel::rows(const WindowTiles& tile) const {
  return std::min<std::int64_t>(unit_.strip_rows() * tile.strips / stored_side(),
                                problem_.y_extents()[2]);
}

std::int64_t WindowModel::filters() const {
  return std::min<std::int64_t>(terms_.eight_filters() * unit_.filter_n8_tiles, problem_.k);
}

bool WindowModel::columns_follow() const {
  return problem_.y_extents()[3] == 1 || problem_.y_strides[3] == 1;
}

bool WindowModel::steps_of(std::int64_t multiple) const {
  const Extents y = problem_.y_extents();
  for (int i = 0; i < 3; ++i)
    if (y[i] > 1 && problem_.y_strides[i] % multiple != 0) return false;
  return true;
}

std::int64_t WindowModel::warp_columns() const {
  return unit_.warp_windows() * terms_.shifts / stored_side();
}

bool WindowModel::stores_whole_sectors(const WindowTiles& tile) const {
  const std::int64_t sector = memory_sector_bytes / stored_bytes_;
  return columns_follow() && warp_columns() % sector == 0 && columns(tile) % sector == 0 &&
         steps_of(sector);
}

bool WindowModel::in_fours(const WindowTiles& tile) const {
  return !depth_.of_volumes && tile.column_tiles == 1 && problem_.padding.left == 0 &&
         tile.pitch == problem_.w;
}

double WindowModel::loads(const WindowTiles& tile) const {
  const std::int64_t rows = input_rows(tile);
  if (in_fours(tile)) return number(ceil_div(rows * tile.pitch, 16 * tile.threads));
  const RowLanes lanes(tile.pitch, false);
  return number(ceil_div(rows * lanes.count(), tile.threads) * lanes.turns);
}

double WindowModel::clocks_to_read(const WindowTiles& tile, double clocks_of_one) const {
  if (in_place() && !tile.staged() && stored_bytes_ < 4 && !input_in_pairs(problem_, nullptr)) {
    // Halves that have no neighbour to pair with pass through registers, whether their copies are
    // begun ahead or not.
    const RowLanes lanes(tile.pitch, true);
    return clocks_of_one * number(ceil_div(input_rows(tile) * lanes.count(), tile.threads) *
                                  ceil_div(lanes.turns, loaded_at_once));
  }
  if (tile.staging != Staging::none) return 0;
  return in_place() ? streamed_.copied_clocks : loads(tile) * clocks_of_one;
}

bool WindowModel::in_place() const {
  return unit_.streams && costs_.element_bytes == stored_bytes_;
}

double WindowModel::loaded_elements(const WindowTiles& tile) const {
  return number(tile.items() * tile.filter_groups) * number(input_rows(tile) * tile.pitch);
}

std::int64_t WindowModel::input_rows(const WindowTiles& tile) const {
  return depth_.under(tile.images) * problem_.c * tile.x_rows;
}

double WindowModel::issued_to_load(const WindowTiles& tile, const IssuedToLoad& costs) const {
  const double rows = number(input_rows(tile)), warps_of_pairs = rows * tile.pitch / 64;
  const double besides = costs.besides * warps_of_pairs;
  if (in_fours(tile)) return costs.fours * warps_of_pairs + besides;
  if (tile.staged()) return costs.staged * warps_of_pairs + besides;
  const RowLanes lanes(tile.pitch, in_place());
  const double warps_of_rows = rows * lanes.count() / 32;
  if (in_place())
    return warps_of_rows * (streamed_.copied_row + streamed_.copied_element * lanes.turns) +
           (costs_.scaled ? streamed_.copied_to_scale : streamed_.copied_to_round) *
               warps_of_pairs +
           besides;
  return warps_of_rows * (costs.row + costs.turn * lanes.turns) + besides;
}

double WindowModel::rounds(const WindowTiles& tile) const {
  const double items = number(tile.items()) * tile.filter_groups;
  const double full_rounds = items / (machine_.units * static_cast<double>(tile.blocks));
  return full_rounds > 4 ? full_rounds : std::ceil(full_rounds);
}

double WindowModel::seconds(const WindowTiles& tile) const {
  return unit_.streams ? streamed_seconds(tile) : resident_seconds(tile);
}

double WindowModel::expected_seconds(const WindowTiles& tile) const {
  const bool streams = unit_.streams;
  const double besides = streams ? streamed_.launch_seconds + streamed_.pack_seconds
                                 : few_.launch_seconds + few_.pack_seconds;
  const double of_many = streams ? streamed_.many_channels : few_.many_channels;
  return besides + (channels_ > 16 ? of_many : 1) * (tile.seconds - besides) +
         first_scale_seconds(tile);
}

}  // namespace plumb::cuda
