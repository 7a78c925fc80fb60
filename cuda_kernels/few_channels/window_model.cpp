#include "cuda_kernels/few_channels/window_model.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cuda_kernels/conv/conv_support.hpp"

namespace plumb::cuda {
namespace {

/// Of times that overlap: a little more than the longest.
double max_of(std::initializer_list<double> times) {
  double sum = 0;
  for (const double time : times) sum += time * time * time * time;
  return std::sqrt(std::sqrt(sum));
}

double number(std::int64_t value) { return static_cast<double>(value); }

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
constexpr double seconds_to_launch = 2e-6;
constexpr double share_of_bandwidth = 0.71;  // of the nominal one
// Of tiles that are copied and rounded in place: a row, each element of a lane, each warp of pairs
// that is rounded, scaled or not, and the clocks until all is there.
constexpr double issued_of_row = 55, issued_of_copy = 8.4, issued_to_scale = 19;
constexpr double issued_to_round = 9, clocks_of_copies = 1780;
// Pieces of memory sectors take so many times as long as whole ones: those that L2 puts together,
// for each sector that they lie in, and those that it has let go before.
constexpr double joined_pieces = 1.33, lost_pieces = 3;
constexpr std::int64_t sector_bytes = 32;
constexpr double joined_bytes = 25e6;  // of outputs under way, that L2 holds

// The same for streamed filters, fitted to 5,200 tiles of 200 convolutions. Products of four warps
// take so long for each eight columns, but no less for few of them. Those of warps by themselves
// are not fitted: what they have of their own is as above.
namespace streams {
constexpr double issued_per_clock = 3.74, waves_per_clock = 0.675, bytes_per_clock = 15.5;  // L2's
constexpr double clocks_of_eight = 3.56, clocks_of_product = 11;
constexpr double issued_of_fragment = 62, issued_of_product = 2.8, issued_of_task = 42;
constexpr double issued_to_store = 180, issued_to_store_fours = 106;  // a row of eight columns
constexpr double issued_of_pair = 55, issued_of_plain_pair = 22;      // of the input, scaled or not
// From a fragment's reading to its products' end, where there is one at a time; of a walk's begin
// and each of its slots; from a slice to the next; and of four rows of eight columns that are
// stored together.
constexpr double clocks_of_fragment = 306, clocks_of_walk = 543, clocks_of_slot = 214;
constexpr double clocks_of_slice = 885, clocks_to_store = 1585;
constexpr double clocks_of_tile = 1710, clocks_of_load = 880, of_one_block = 1.147;
// Of a run of outputs whose last line of memory is completed later, what that costs besides its
// bytes; and of what is read again, from L2.
constexpr double late_bytes = 47.6, share_of_halo = 0.72;
constexpr double share_of_bandwidth = 0.548, seconds_to_pack = 3e-6;
}  // namespace streams

}  // namespace

WindowModel::WindowModel(const ConvProblem& problem, const DeviceInfo& device,
                         const WindowKernelConfig& unit, const WindowCosts& costs)
    : problem_(problem),
      device_(device),
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
  const std::int64_t sector = sector_bytes / stored_bytes_;
  return columns_follow() && warp_columns() % sector == 0 && columns(tile) % sector == 0 &&
         steps_of(sector);
}

double WindowModel::writing(const WindowTiles& tile) const {
  if (tile.whole_sectors || tile.y_pitch > 0) return 1;
  const double under_way = number(tile.images * filters() * rows(tile) * columns(tile)) *
                           static_cast<double>(stored_bytes_) * tile.blocks * device_.units;
  const double sectors = number(warp_columns() * stored_bytes_) / sector_bytes;
  return steps_of(2) && under_way < joined_bytes ? joined_pieces * (sectors + 1) / sectors
                                                 : lost_pieces;
}

double WindowModel::issued_of_task(const WindowTiles& tile, double steps, double slots) const {
  const double pairs = unit_.fragments, n8_tiles = unit_.filter_n8_tiles;
  const bool one_by_one = tile.y_pitch == 0 && !steps_of(2);
  const double storing = terms_.shifts == 1 ? 34 : one_by_one ? 70 : 26, own = 45;
  const double again = rows_stay() ? 0 : 4 * pairs;
  if (unit_.warpgroups)  // every row is kept twice, and every product has an address
    return 1.3 * steps / n8_tiles + (2 + 0.9 * costs_.element_bytes) * rows_read() + own +
           pairs * n8_tiles * storing;
  return steps + 0.88 * rows_read() + slots * (n8_tiles + 4 + again) + own +
         pairs * n8_tiles * storing;
}

bool WindowModel::rows_stay() const {
  return terms_.segment_rows == 1 && !terms_.wide() && problem_.stride.h == 1;
}

double WindowModel::rows_read() const {
  const double rows = 2 * unit_.fragments;
  return number(problem_.c) * (rows_stay() ? rows + terms_.segments - 1 : rows * terms_.segments);
}

double WindowModel::issued_to_write(const WindowTiles& tile) const {
  const double stretches = number(tile.images * filters());
  const double of_runs =
      tile.y_row_pitch > 0 ? 110.0 * number(tile.y_pitch / tile.y_row_pitch) * stretches : 0;
  return 10 * number(tile.y_pitch) * stretches / 64 + of_runs;
}

bool WindowModel::in_fours(const WindowTiles& tile) const {
  return tile.column_tiles == 1 && problem_.padding.left == 0 && tile.pitch == problem_.w;
}

double WindowModel::loads(const WindowTiles& tile) const {
  const std::int64_t rows = input_rows(tile);
  if (in_fours(tile)) return number(ceil_div(rows * tile.pitch, 16 * tile.threads));
  const RowLanes lanes(tile.pitch, false);
  return number(ceil_div(rows * lanes.count(), tile.threads) * lanes.turns);
}

double WindowModel::clocks_to_read(const WindowTiles& tile, double clocks_of_one) const {
  if (in_place() && !tile.staged() && stored_bytes_ < 4 && !input_in_pairs(problem_, nullptr)) {
    // Halves that are alone pass through registers, whether they are begun ahead or not.
    const RowLanes lanes(tile.pitch, true);
    return clocks_of_one * number(ceil_div(input_rows(tile) * lanes.count(), tile.threads) *
                                  ceil_div(lanes.turns, brought_at_once));
  }
  if (tile.staging != Staging::none) return 0;
  return in_place() ? clocks_of_copies : loads(tile) * clocks_of_one;
}

bool WindowModel::in_place() const {
  return unit_.streams && costs_.element_bytes == stored_bytes_;
}

std::int64_t WindowModel::input_rows(const WindowTiles& tile) const {
  return std::int64_t{tile.images} * problem_.c * tile.x_rows;
}

double WindowModel::issued_to_load(const WindowTiles& tile, const IssuedToLoad& costs) const {
  const double rows = number(input_rows(tile)), warps_of_pairs = rows * tile.pitch / 64;
  const double besides = costs.besides * warps_of_pairs;
  if (in_fours(tile)) return costs.fours * warps_of_pairs + besides;
  if (tile.staged()) return costs.staged * warps_of_pairs + besides;
  const RowLanes lanes(tile.pitch, in_place());
  const double warps_of_rows = rows * lanes.count() / 32;
  if (in_place())
    return warps_of_rows * (issued_of_row + issued_of_copy * lanes.turns) +
           (costs_.scaled ? issued_to_scale : issued_to_round) * warps_of_pairs + besides;
  return warps_of_rows * (costs.row + costs.turn * lanes.turns) + besides;
}

double WindowModel::clocks(const WindowTiles& tile) const {
  const double blocks = tile.blocks, warps = tile.threads / 32, n8_tiles = unit_.filter_n8_tiles;
  const double together = unit_.warpgroups ? 4 : 1;  // warps
  const double windows = number(std::int64_t{tile.images} * tile.strips * tile.windows);
  const double tasks = std::ceil(windows / unit_.warp_windows() / together) * together;
  const double tensor_rate = unit_.warpgroups ? warpgroup_steps_per_clock : steps_per_clock;
  const double slots = number(problem_.c) * terms_.segments / 2.0;
  const double steps = slots * unit_.fragments * n8_tiles * costs_.steps_of_slot;
  const double of_filters =
      unit_.warpgroups ? steps * 2 / together : slots * n8_tiles * costs_.slot_bytes / 4;
  const double waves = rows_read() * costs_.element_bytes / 2.0 + of_filters;
  const double of_task = issued_of_task(tile, steps, slots);
  const double loading = issued_to_load(
      tile,
      {.fours = 7.5, .staged = 21, .row = 40, .turn = 40, .besides = costs_.scaled ? 50.0 : 0});
  const double issued = tasks * of_task + loading + issued_to_write(tile) + 148 * warps;
  // What is shared by the blocks of a multiprocessor, and what each waits for by itself.
  const double shared = max_of(
      {issued / issued_per_clock, tasks * steps / tensor_rate, tasks * waves / waves_per_clock});
  const double of_chain = clocks_to_next * (of_task + 2 * steps / tensor_rate);
  const double waited = std::ceil(tasks / warps) * (clocks_of_task + of_chain) +
                        2 * loading / warps + clocks_of_tile + clocks_to_read(tile, clocks_of_load);
  return shared * (tile.blocks == 1 ? of_one_block : 1) + waited / blocks;
}

double WindowModel::streamed_passes(const WindowTiles& tile) const {
  const double windows = number(std::int64_t{tile.images} * tile.strips * tile.windows);
  return std::ceil(windows / unit_.warp_windows() / (tile.threads / 32));
}

double WindowModel::streamed_bytes(const WindowTiles& tile) const {
  const Extents y = problem_.y_extents();
  const double planes = number(y[0] * y[1]);
  // A tile of whole rows is one run, but for what other passes of the block write.
  const double runs =
      tile.column_tiles > 1
          ? number(y[2] * tile.column_tiles)
          : number(tile.bands) * (1 + (streamed_passes(tile) - 1) * unit_.fragments) / tile.images;
  const double late = tile.whole_sectors ? 0 : planes * runs * streams::late_bytes;
  const double read = number(tile.items() * tile.filter_groups) *
                      number(input_rows(tile) * tile.pitch * stored_bytes_);
  const Extents x = problem_.x_extents();
  const double of_x = number(x[0] * x[1] * x[2] * x[3] * stored_bytes_);
  return problem_.bytes() + late + streams::share_of_halo * std::max(read - of_x, 0.0);
}

double WindowModel::streamed_clocks(const WindowTiles& tile) const {
  using namespace streams;
  const double blocks = tile.blocks, warps = tile.threads / 32, n8_tiles = unit_.filter_n8_tiles;
  const double strip_rows = unit_.fragments, slots = tile.walks.slots();
  // Warps that share a stream of filters go through all of it.
  const double passes = streamed_passes(tile), tasks = passes * warps;
  const double fragments = number(tile.walks.count) * (tile.walks.length + strip_rows - 1);
  const double rows_of_slots = slots * strip_rows, products = rows_of_slots * costs_.steps_of_slot;
  // Of four warps, by themselves or together. A warp by itself reads a slot's filters for all rows;
  // together two of three products are one of twice the columns.
  const bool together = unit_.warpgroups;
  const auto of_columns = [&](double of_n8_tiles) {
    return std::max(clocks_of_product, clocks_of_eight * of_n8_tiles);
  };
  const double tensor = !together ? products * 4 / steps_per_clock * n8_tiles
                        : costs_.products == 3
                            ? rows_of_slots * (of_columns(n8_tiles) + of_columns(2 * n8_tiles))
                            : products * of_columns(n8_tiles);
  const double filters_read =
      together ? products * n8_tiles / 2 : slots * n8_tiles * costs_.slot_bytes / 4;
  const bool fours = terms_.shifts == 2 && problem_.pool == Pool::none && steps_of(4) &&
                     problem_.q() % 4 == 0 && tile.windows % 2 == 0;
  const double of_products =
      together ? products * issued_of_product : (products + slots) * n8_tiles;
  const double of_task = fragments * issued_of_fragment + of_products + streams::issued_of_task +
                         strip_rows * n8_tiles * (fours ? issued_to_store_fours : issued_to_store);
  const double of_pair = costs_.scaled ? issued_of_pair : issued_of_plain_pair;
  const double loading = issued_to_load(
      tile,
      {.fours = 0.6 * of_pair, .staged = of_pair, .row = 20, .turn = 3.2 * of_pair, .besides = 0});
  const double element_words = costs_.element_bytes / 4.0;
  const double waves = tasks * (10.4 * element_words * fragments + filters_read) +
                       6 * element_words * number(input_rows(tile)) * tile.pitch / 64;
  const double streamed =
      tile.slices > 1 ? passes * slots * n8_tiles * 32 * costs_.slot_bytes / bytes_per_clock : 0;
  const double shared =
      max_of({(tasks * of_task + loading + 150 * warps) / streams::issued_per_clock,
              tasks / 4 * tensor, waves / streams::waves_per_clock, streamed});
  const double of_walks = tile.walks.length == 1 ? rows_of_slots * clocks_of_fragment
                                                 : tile.walks.count * clocks_of_walk +
                                                       slots * clocks_of_slot + 0.6 * tensor;
  const double by_itself =
      clocks_to_next * (fragments * issued_of_fragment + of_products + tensor / 2);
  const double of_slices = tile.slices > 1 ? clocks_of_slice * tile.slices : 0;
  const double chain = (together ? of_walks + of_slices : by_itself) +
                       std::ceil(strip_rows * n8_tiles / 4) * clocks_to_store;
  const double waited =
      streams::clocks_of_tile + 2 * loading / warps + clocks_to_read(tile, streams::clocks_of_load);
  return max_of(
             {shared * (tile.blocks == 1 ? streams::of_one_block : 1), passes * chain / blocks}) +
         waited / blocks;
}

double WindowModel::seconds(const WindowTiles& tile) const {
  const double clock = clock_hertz(device_);
  const double units = std::max(device_.units, 1), blocks = tile.blocks;
  const double items = number(tile.items()) * tile.filter_groups;
  const double full_rounds = items / (units * blocks);
  const double rounds = full_rounds > 4 ? full_rounds : std::ceil(full_rounds);
  const auto moving = [&](double bytes, double share) {
    return device_.nominal_bytes_per_second > 0 ? bytes / (share * device_.nominal_bytes_per_second)
                                                : 0;
  };
  if (unit_.streams)
    return max_of({rounds * blocks * streamed_clocks(tile) / clock,
                   moving(streamed_bytes(tile), streams::share_of_bandwidth)}) +
           streams::seconds_to_pack + seconds_to_launch;
  // A block copies a group's packed filters, from L2 as those that stream.
  const double copying = number(problem_.c * terms_.slots() * unit_.filter_n8_tiles) * 32 *
                         costs_.slot_bytes / streams::bytes_per_clock;
  const Extents y = problem_.y_extents();
  const double y_bytes = number(y[0] * y[1] * y[2] * y[3] * stored_bytes_);
  return max_of({blocks * (rounds * clocks(tile) + copying) / clock,
                 moving(problem_.bytes() + y_bytes * (writing(tile) - 1), share_of_bandwidth)}) +
         streams::seconds_to_pack + seconds_to_launch;
}

}  // namespace plumb::cuda
