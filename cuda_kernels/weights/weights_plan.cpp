// How backward weights is cut. The cut depends on the problem's sizes alone, and not on the device:
// it is the order of the sums.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda_kernels/cost/weights.hpp"
#include "cuda_kernels/weights/weights.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

constexpr double stage_limit = 47 << 10;  // of two: two blocks fit a multiprocessor
constexpr double parts_limit = 64 << 20;  // bytes of workspace
constexpr double index_limit = 0x7fff0000;
constexpr int max_block_k = 64, max_block_c = 64;

WeightsAxis axis_of(int64_t extent, int64_t taps, int64_t outputs, int64_t stride, int64_t dilation,
                    int64_t before) {
  // What leads to no second output or tap is any number.
  if (outputs == 1) stride = 0;
  if (taps == 1) dilation = 0;
  const int64_t common = std::max<int64_t>(std::gcd(stride, dilation), 1);
  return {.outputs = outputs,
          .extent = extent,
          .before = before,
          .unit = common,
          .taps = static_cast<int>(taps),
          .stride = static_cast<int>(std::max<int64_t>(stride / common, 1)),
          .dilation = static_cast<int>(dilation / common)};
}

/// Units of the input under so many outputs.
double span(const WeightsAxis& axis, double outputs) {
  return (outputs - 1) * axis.stride + (axis.taps - 1.0) * axis.dilation + 1;
}

/// Long chains of floats lose digits, and the bound says so: shorter ones may cost a little time.
double chain_weight(double chain, int real_bytes) {
  constexpr double long_chain = 8192, of_doubling = 0.04;
  if (real_bytes == 8) return 1;
  return 1 + of_doubling * std::max(0.0, std::log2(chain / long_chain));
}

/// The search for the cut that takes the fewest clocks, of a model that no device has a say in.
struct Search {
  const WeightsSizes& sizes;
  int real_bytes;
  std::optional<WeightsCut> best = {};
  double best_weighed = 0;

  void try_tile(const WeightsTile& tile);
  void try_block(WeightsCut cut, int64_t lines_of_channel, int64_t channels);
  void try_box(WeightsCut cut, int64_t box_n, int64_t bands, int64_t columns);
};

int64_t lines_of_row(const WeightsSizes& sizes, const WeightsTile& tile) {
  if (!sizes.neighbours) return sizes.w.taps;
  return sizes.planes * ceil_div(sizes.plane_taps, tile.taps);
}

void Search::try_tile(const WeightsTile& tile) {
  if (!is_compiled(tile, real_bytes) || (!sizes.neighbours && tile.taps > 1)) return;
  WeightsCut cut{.tile = tile};
  cut.pieces = static_cast<int>(lines_of_row(sizes, tile));
  const int64_t lines = int64_t{sizes.d.taps} * sizes.h.taps * cut.pieces;
  const int64_t tiles_k = ceil_div(sizes.group_k, tile.filters);
  cut.blocks_k = ceil_div(tiles_k, max_block_k / tile.filters);
  cut.tiles_k = static_cast<int>(ceil_div(tiles_k, cut.blocks_k));
  cut.blocks_k = ceil_div(tiles_k, cut.tiles_k);
  cut.block_k = cut.tiles_k * tile.filters;
  const int64_t room = std::max(weights_threads / cut.tiles_k, 1);
  const int64_t most = std::clamp<int64_t>(room * tile.lines / lines, 1,
                                           std::min<int64_t>(sizes.group_c, max_block_c));
  for (const int64_t channels : {most, (most + 1) / 2, (most + 3) / 4}) {
    try_block(cut, lines, channels);
    if (channels == 1) break;
  }
}

void Search::try_block(WeightsCut cut, int64_t lines_of_channel, int64_t channels) {
  const int64_t room = std::max(weights_threads / cut.tiles_k, 1);
  cut.blocks_c = ceil_div(sizes.group_c, channels);
  cut.block_c = static_cast<int>(ceil_div(sizes.group_c, cut.blocks_c));
  cut.blocks_c = ceil_div(sizes.group_c, cut.block_c);
  const int64_t tiles = ceil_div(cut.block_c * lines_of_channel, cut.tile.lines);
  if (tiles <= room) {
    cut.channel_lines = static_cast<int>(lines_of_channel);
    cut.tiles_l = static_cast<int>(tiles);
  } else {
    const int64_t of_channel = ceil_div(lines_of_channel, cut.tile.lines);
    cut.blocks_l = ceil_div(of_channel, room);
    cut.tiles_l = static_cast<int>(ceil_div(of_channel, cut.blocks_l));
    cut.blocks_l = ceil_div(of_channel, cut.tiles_l);
    cut.channel_lines = cut.tiles_l * cut.tile.lines;
  }
  const int64_t p = sizes.h.outputs, q = sizes.w.outputs;
  int64_t last_columns = 0;
  for (const int64_t width : {256, 128, 64, 32, 16}) {
    const int64_t columns = ceil_div(q, width);
    if (columns == last_columns) continue;
    last_columns = columns;
    int64_t last_bands = 0;
    for (const int64_t height : {64, 32, 24, 16, 12, 8, 4, 2, 1}) {
      const int64_t bands = ceil_div(p, height);
      if (bands == last_bands) continue;
      last_bands = bands;
      try_box(cut, 1, bands, columns);
    }
    if (columns == 1 && p <= 64)
      for (const int64_t images : {2, 4, 8, 16, 32, 64})
        if (images < 2 * sizes.images) try_box(cut, std::min(images, sizes.images), 1, 1);
  }
}

void Search::try_box(WeightsCut cut, int64_t box_n, int64_t bands, int64_t columns) {
  cut.box_n = static_cast<int>(box_n);
  cut.box_p = static_cast<int>(ceil_div(sizes.h.outputs, bands));
  const int64_t box_q = ceil_div(ceil_div(sizes.w.outputs, columns), weights_step) * weights_step;
  cut.box_q = static_cast<int>(box_q);
  cut.bands = ceil_div(sizes.h.outputs, cut.box_p);
  cut.columns = ceil_div(sizes.w.outputs, box_q);
  const double rows = span(sizes.h, cut.box_p);
  const double plane = static_cast<double>(box_q) + sizes.max_shift;
  // Rows at odd distances lie in different banks.
  const double pitch = plane * sizes.planes + 1;
  const double x = 1.0 * cut.box_n * cut.block_c * sizes.d.taps * rows * pitch;
  const double positions = 1.0 * cut.box_n * cut.box_p * static_cast<double>(box_q);
  // Neighbouring filters a vector apart, so that vectors of all of them lie in different banks.
  const int words = 16 / real_bytes, line = 128 / real_bytes;
  cut.filter_pitch = (static_cast<int>(positions) + line - words - 1) / line * line + words;
  if ((x + cut.block_k * cut.filter_pitch + 4) * real_bytes > stage_limit ||
      positions > weights_max_steps * weights_step)
    return;
  cut.rows = static_cast<int>(rows);
  cut.plane_pitch = static_cast<int>(plane);
  cut.row_pitch = static_cast<int>(plane) * sizes.planes | 1;
  cut.steps = static_cast<int>(positions) / weights_step;
  const int tiles = cut.tiles_k * cut.tiles_l;
  const int iterations = static_cast<int>(
      ceil_div(cut.steps, std::min(std::max(weights_threads / tiles, 1), cut.steps)));
  cut.splits = static_cast<int>(ceil_div(cut.steps, iterations));
  cut.threads = static_cast<int>(ceil_div(tiles * cut.splits, 32)) * 32;
  const int room = std::max(cut.threads / (tiles * cut.tile.taps), 1);
  const int root = static_cast<int>(std::ceil(std::sqrt(cut.splits)));
  cut.sum_rows = static_cast<int>(ceil_div(cut.splits, ceil_div(cut.splits, std::min(room, root))));
  cut.units = ceil_div(std::max<int64_t>(sizes.images, 1), box_n) * cut.bands * cut.columns;
  const std::size_t table = weights_max_steps * sizeof(int);
  const auto stages = static_cast<std::size_t>(2 * cut.stage_elements(sizes.d.taps));
  // Sums of a line of all threads, and those of them added up once, take the stages' place.
  const auto sums = static_cast<std::size_t>((cut.threads + 2 * weights_threads) * cut.tile.taps);
  cut.shared_bytes = table + std::max(stages, sums) * static_cast<std::size_t>(real_bytes);

  const WeightsWork work{.real_bytes = real_bytes,
                         .filters = cut.tile.filters,
                         .lines = cut.tile.lines,
                         .taps = cut.tile.taps,
                         .positions = weights_step,
                         .tiles_l = cut.tiles_l,
                         .warps = cut.threads / 32.0,
                         .steps = static_cast<double>(iterations),
                         .x_elements = x,
                         .dy_elements = positions * cut.block_k,
                         .dy_vector = sizes.w.outputs % 4 == 0   ? 16.0 / real_bytes
                                      : sizes.w.outputs % 2 == 0 ? 8.0 / real_bytes
                                                                 : 1,
                         .blocks_at_once = real_bytes == 4 ? 2 : 1};
  const double of_unit = unit_clocks(work);
  WeightsShares shares{
      .blocks = static_cast<double>(cut.blocks_of_part(sizes.groups)),
      .units = static_cast<double>(cut.units),
      .weights_bytes = static_cast<double>(sizes.weights()) * real_bytes,
      .slots = weights_units * work.blocks_at_once,
  };
  const double max_parts = std::max(1.0, std::floor(parts_limit / shares.weights_bytes));
  for (const int waves : {1, 2, 3, 4, 6, 8}) {
    shares.parts = std::clamp(std::floor(waves * shares.slots / shares.blocks), 1.0,
                              std::min(shares.units, max_parts));
    const double clocks = weights_clocks(work, of_unit, shares);
    const double chain = std::ceil(shares.units / shares.parts) * iterations * weights_step;
    const double weighed = clocks * chain_weight(chain, real_bytes);
    if (best && best_weighed <= weighed) continue;
    cut.parts = static_cast<int64_t>(shares.parts);
    cut.clocks = clocks;
    best = cut, best_weighed = weighed;
  }
}

}  // namespace

std::optional<WeightsSizes> weights_sizes(const ConvProblem& p) {
  constexpr int64_t most = 1 << 20;  // of what is an int
  for (const int64_t number :
       {p.t, p.r, p.s, p.c / p.groups, p.q() > 1 ? p.stride.w : 1, p.p() > 1 ? p.stride.h : 1,
        p.z() > 1 ? p.stride.d : 1, p.s > 1 ? p.dilation.w : 1, p.r > 1 ? p.dilation.h : 1,
        p.t > 1 ? p.dilation.d : 1})
    if (number > most) return std::nullopt;
  if (static_cast<double>(p.n) * static_cast<double>(p.z()) > index_limit) return std::nullopt;
  if (static_cast<double>(p.t) * static_cast<double>(p.r) * static_cast<double>(p.s) > most)
    return std::nullopt;
  WeightsSizes sizes{.n = p.n,
                     .images = p.n * p.z(),
                     .groups = p.groups,
                     .group_k = p.k / p.groups,
                     .group_c = p.c / p.groups,
                     .d = axis_of(p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front),
                     .h = axis_of(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
                     .w = axis_of(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left)};
  const WeightsAxis& w = sizes.w;
  sizes.neighbours = w.dilation <= 1;
  sizes.planes = std::min(w.stride, w.taps);
  sizes.plane_taps = static_cast<int>(ceil_div(w.taps, w.stride));
  if (!sizes.neighbours) sizes.planes = w.stride;
  sizes.max_shift = static_cast<int>(int64_t{w.taps - 1} * w.dilation / w.stride);
  return sizes;
}

std::optional<WeightsCut> cut_weights(const WeightsSizes& sizes, int real_bytes,
                                      const WeightsTile* tile) {
  Search search{sizes, real_bytes};
  for (const WeightsTile& one : weights_tiles)
    if (!tile || one == *tile) search.try_tile(one);
  return search.best;
}

double single_elements(const WeightsSizes& sizes, const WeightsCut& cut) {
  const int x = cut.x_elements(sizes.d.taps);
  const int of_stage = sizes.w.outputs % 2 == 0 ? x : x + cut.block_k * cut.filter_pitch;
  return static_cast<double>(cut.units) * static_cast<double>(cut.blocks_of_part(sizes.groups)) *
         of_stage;
}

double weights_chain(const WeightsSizes& sizes, const WeightsCut& cut) {
  const auto up = [](double a, double b) { return std::ceil(a / b); };
  const double units = up(static_cast<double>(cut.units), static_cast<double>(cut.parts));
  const double thread = units * up(cut.steps, cut.splits) * weights_step;
  const double parts = up(static_cast<double>(cut.parts), finish_rows);
  // Threads of a tile are added in two chains, parts in chains and a tree.
  const double block = up(cut.splits, cut.sum_rows) + cut.sum_rows;
  const double tree = std::log2(finish_rows);
  const double terms = static_cast<double>(sizes.images) * static_cast<double>(sizes.h.outputs) *
                       static_cast<double>(sizes.w.outputs);
  // What is NaN is summed again in double by a block (weights_finish.cuh), in less.
  return std::min(std::max(thread + block + parts + tree, 16.0), std::max(terms, 1.0));
}

WeightsStrides weights_strides(const ConvProblem& p) {
  const auto step = [](const Extents& extents, const Strides& strides, int axis) {
    if (axis < 0) return int64_t{0};
    return extents[axis] > 1 ? strides[axis] : 0;
  };
  const Extents x = p.x_extents(), w = p.w_extents(), y = p.y_extents();
  const int rank = x.rank(), depth = p.has_depth() ? rank - 3 : -1;
  const Strides &xs = p.x_strides, &ws = p.w_strides, &ys = p.y_strides;
  return {.x_n = step(x, xs, 0),
          .x_c = step(x, xs, 1),
          .x_d = step(x, xs, depth),
          .x_h = step(x, xs, rank - 2),
          .x_w = step(x, xs, rank - 1),
          .w_k = step(w, ws, 0),
          .w_c = step(w, ws, 1),
          .w_t = step(w, ws, depth),
          .w_r = step(w, ws, rank - 2),
          .w_s = step(w, ws, rank - 1),
          .y_n = step(y, ys, 0),
          .y_k = step(y, ys, 1),
          .y_z = step(y, ys, depth),
          .y_p = step(y, ys, rank - 2),
          .y_q = step(y, ys, rank - 1)};
}

}  // namespace plumb::cuda
