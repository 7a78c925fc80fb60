// How backward weights is cut for tensor cores. The cut depends on the problem's sizes and the
// arithmetic alone, and not on the device: it is the order of the sums.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/few_weights.hpp"
#include "cuda_kernels/few_weights/few_weights.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

constexpr double parts_limit = 64 << 20;  // bytes of workspace
constexpr int max_block_k = 64, max_block_c = 64, row_elements = 8;

int64_t round_up(int64_t number, int64_t multiple) { return ceil_div(number, multiple) * multiple; }

/// Of a block, where two or one share a multiprocessor.
double shared_limit(const FewWeightsTile& tile, const FewWeightsClass& of) {
  return (few_weights_blocks_at_once(tile, of) == 2 ? 112 : 225) << 10;
}

/// Elements that can be copied at once where rows have so many, if they lie side by side.
int vector_of(int64_t extent, const FewWeightsClass& of) {
  int64_t vector = 16 / of.stored_bytes();
  while (extent % vector != 0) vector /= 2;
  return static_cast<int>(vector);
}
int x_vector(const WeightsAxis& w, const FewWeightsClass& of) {
  return w.stride == 1 && w.unit == 1 ? vector_of(w.extent, of) : 1;
}

/// How many of the eight rows of a fragment, 16 bytes each, begin in the same banks as others.
int row_conflicts(const FewWeightsCut& cut, int64_t filter) {
  int conflicts = 0;
  for (int first = 0; first < 16; first += 8) {
    int banks[8] = {}, most = 0;
    for (int row = first; row < first + 8; ++row) {
      const int64_t at = row / cut.outer % cut.block_k * filter +
                         int64_t{cut.outer - 1 - row % cut.outer} * cut.shift * cut.pitch;
      most = std::max(most, ++banks[at / row_elements % 8]);
    }
    conflicts += most;
  }
  return conflicts;
}

/// Wavefronts of shared memory that the block's warps take to read the columns of a step once.
int column_wavefronts(const WeightsSizes& sizes, const FewWeightsCut& cut) {
  int all = 0;
  for (int first = 0; first < cut.block_columns; first += 8) {
    int words[32] = {}, of_bank[32] = {}, count = 0, most = 1;
    for (int lane = 0; lane < 32; ++lane) {
      const int number = first + lane / 4;
      if (number >= cut.block_columns) continue;
      const int word = FewWeightsColumn(sizes, cut, number).offset(sizes, cut) / 2 + lane % 4;
      if (std::find(words, words + count, word) != words + count) continue;
      words[count++] = word;
      most = std::max(most, ++of_bank[word % 32]);
    }
    all += most;
  }
  return all;
}

/// Shared memory of a block, in bytes.
double shared_bytes(const FewWeightsCut& cut, const FewWeightsClass& of) {
  const double x = cut.x_elements, dy = cut.dy_elements();
  const double stages = x * (of.stored_bytes() + 4.0 * of.halves()) +
                        dy * (of.stored_bytes() + 2.0 * of.halves()) + 64;
  const double sums = 4.0 * cut.m() * cut.n() * cut.warps_k;
  return std::max(stages, sums);
}

/// Elements of a copy of x, so far from a multiple of all banks.
int x_elements(const WeightsSizes& sizes, const FewWeightsCut& cut, int apart) {
  const int least = cut.box_n * cut.x_image(sizes);
  return (least + 63 - apart) / 64 * 64 + apart;
}

/// Puts planes and copies of x a little further apart, where its columns then lie in other banks
/// and there is room.
FewWeightsCut spread_columns(const WeightsSizes& sizes, const FewWeightsClass& of,
                             const FewWeightsCut& cut) {
  FewWeightsCut tried = cut, best = cut;
  int fewest = column_wavefronts(sizes, cut);
  for (int pad = 0; pad < 64; pad += row_elements)
    for (int apart = 0; apart < 64; apart += row_elements) {
      tried.x_plane = cut.x_plane + pad;
      tried.x_elements = x_elements(sizes, tried, apart);
      const double bytes = shared_bytes(tried, of);
      if (bytes > shared_limit(tried.tile, of)) continue;
      const int wavefronts = column_wavefronts(sizes, tried);
      if (wavefronts >= fewest) continue;
      fewest = wavefronts, best = tried;
      best.shared_bytes = static_cast<std::size_t>(bytes);
    }
  return best;
}

/// The search for the cut that takes the fewest clocks, of a model that no device has a say in.
struct Search {
  const WeightsSizes& sizes;
  const FewWeightsClass& of;
  FewWeightsChoice choice;
  std::optional<FewWeightsCut> best = {};

  void try_tile(const FewWeightsTile& tile, int outer);
  void try_block(FewWeightsCut cut, int64_t channels);
  void try_box(FewWeightsCut cut, int64_t box_n, int64_t bands, int64_t columns);
  void try_parts(FewWeightsCut cut);
};

/// Cuts the rows of taps in `outer` by as many as it takes; says whether that can be.
bool cut_rows(FewWeightsCut& cut, const WeightsAxis& h, int outer) {
  cut.inner = static_cast<int>(ceil_div(h.taps, outer));
  cut.outer = static_cast<int>(ceil_div(h.taps, cut.inner));
  if (cut.outer != outer) return false;
  const int64_t reach = int64_t{cut.inner} * h.dilation;
  if (outer > 1 && reach % h.stride != 0) return false;
  cut.shift = outer > 1 ? static_cast<int>(reach / h.stride) : 0;
  cut.row_planes = h.dilation <= 1 ? std::min(h.stride, cut.inner) : h.stride;
  cut.max_row_shift = static_cast<int>(int64_t{cut.inner - 1} * h.dilation / h.stride);
  return true;
}

void Search::try_tile(const FewWeightsTile& tile, int outer) {
  FewWeightsCut cut{.tile = tile};
  if (!cut_rows(cut, sizes.h, outer)) return;
  const int64_t max_k =
      std::min<int64_t>(max_block_k, int64_t{16} * tile.m * few_weights_warps / outer);
  cut.blocks_k = ceil_div(sizes.group_k, std::max<int64_t>(max_k, 1));
  cut.block_k = static_cast<int>(ceil_div(sizes.group_k, cut.blocks_k));
  cut.warps_m = static_cast<int>(ceil_div(int64_t{cut.block_k} * outer, 16 * tile.m));
  if (cut.warps_m > few_weights_warps) return;
  const int64_t room = few_weights_warps / cut.warps_m * 8 * tile.n;
  const int64_t of_channel = int64_t{sizes.d.taps} * cut.inner * sizes.w.taps;
  const int64_t most =
      std::clamp<int64_t>(room / of_channel, 1, std::min<int64_t>(sizes.group_c, max_block_c));
  for (const int64_t channels : {most, (most + 1) / 2, (most + 3) / 4}) {
    try_block(cut, channels);
    if (channels == 1) break;
  }
}

void Search::try_block(FewWeightsCut cut, int64_t channels) {
  const int64_t room = few_weights_warps / cut.warps_m * 8 * cut.tile.n;
  cut.blocks_c = ceil_div(sizes.group_c, channels);
  cut.block_c = static_cast<int>(ceil_div(sizes.group_c, cut.blocks_c));
  cut.blocks_c = ceil_div(sizes.group_c, cut.block_c);
  const int64_t all = int64_t{cut.block_c} * sizes.d.taps * cut.inner * sizes.w.taps;
  cut.blocks_l = ceil_div(all, room);
  cut.block_columns = static_cast<int>(ceil_div(all, cut.blocks_l));
  cut.blocks_l = ceil_div(all, cut.block_columns);
  cut.warps_n = static_cast<int>(ceil_div(cut.block_columns, 8 * cut.tile.n));
  const int64_t rows = sizes.h.outputs + int64_t{cut.outer - 1} * cut.shift, q = sizes.w.outputs;
  int64_t last_columns = 0;
  for (const int64_t width : {512, 256, 128, 64, 16}) {
    const int64_t columns = ceil_div(q, width);
    if (columns == last_columns) continue;
    last_columns = columns;
    int64_t last_bands = 0;
    for (const int64_t height : {128, 64, 48, 32, 24, 16, 12, 8, 4, 2, 1}) {
      if (choice.max_box > 0 && height > choice.max_box) continue;
      const int64_t bands = ceil_div(rows, height);
      if (bands == last_bands) continue;
      last_bands = bands;
      const int64_t images = columns == 1 && bands == 1 ? std::min<int64_t>(sizes.images, 32) : 1;
      for (int64_t n = 1; n <= std::max<int64_t>(images, 1); n *= 2)
        try_box(cut, n, bands, columns);
    }
  }
}

void Search::try_box(FewWeightsCut cut, int64_t box_n, int64_t bands, int64_t columns) {
  const int64_t halo = int64_t{cut.outer - 1} * cut.shift, rows = sizes.h.outputs + halo;
  const int64_t box_p = ceil_div(rows, bands);
  const int64_t box_q =
      columns == 1 ? sizes.w.outputs : round_up(ceil_div(sizes.w.outputs, columns), row_elements);
  cut.bands = ceil_div(rows, box_p), cut.columns = ceil_div(sizes.w.outputs, box_q);
  const int64_t x_copied = x_vector(sizes.w, of), dy_copied = vector_of(sizes.w.outputs, of);
  const int64_t behind = sizes.w.before % x_copied;
  cut.lead = static_cast<int>(behind == 0 ? 0 : x_copied - behind);
  const int64_t width = cut.lead + box_q + sizes.max_shift;
  // Rows begin where vectors do; those that gradients of other rows of taps are read from, where
  // rows of a fragment do.
  int64_t multiple = std::max(x_copied, dy_copied);
  while (cut.shift * multiple % row_elements != 0) multiple *= 2;
  // Steps go on through the rows of a box. Where gradients of rows behind the last are there for
  // other rows of taps, the last step ends before them.
  const auto terms_of = [&](int64_t pitch) { return (box_p - 1) * pitch + box_q; };
  int64_t pitch = round_up(width, multiple);
  if (halo > 0 && round_up(terms_of(pitch), few_weights_step) > box_p * pitch)
    pitch = round_up(width, few_weights_step);
  const int64_t terms = terms_of(pitch);
  const int64_t x_rows = box_p + cut.max_row_shift, dy_rows = box_p + halo;
  const int64_t x_plane = round_up((x_rows - 1) * pitch + width + few_weights_step, row_elements);
  const int64_t dy_plane = round_up((dy_rows - 1) * pitch + box_q + few_weights_step, row_elements);
  const double elements =
      static_cast<double>(box_n) *
      (static_cast<double>(cut.block_c) * cut.planes(sizes) * static_cast<double>(x_plane) +
       static_cast<double>(cut.block_k) * static_cast<double>(dy_plane));
  if (elements > 1 << 17) return;
  cut.box_n = static_cast<int>(box_n), cut.box_p = static_cast<int>(box_p);
  cut.box_q = static_cast<int>(box_q), cut.pitch = cut.dy_pitch = static_cast<int>(pitch);
  cut.x_rows = static_cast<int>(x_rows), cut.dy_rows = static_cast<int>(dy_rows);
  cut.x_plane = static_cast<int>(x_plane), cut.dy_plane = static_cast<int>(dy_plane);
  cut.image_steps = static_cast<int>(ceil_div(terms, few_weights_step));
  int fewest = 17;
  for (int64_t pad = 0; pad < 8; ++pad) {
    const int64_t filter = box_n * dy_plane + pad * row_elements;
    const int conflicts = row_conflicts(cut, filter);
    if (conflicts < fewest) fewest = conflicts, cut.dy_filter = static_cast<int>(filter);
  }
  cut.warps_k = std::min(few_weights_warps / (cut.warps_m * cut.warps_n), cut.steps());
  if (ceil_div(cut.steps(), cut.warps_k) > few_weights_max_steps) return;
  cut.x_elements = x_elements(sizes, cut, few_weights_step * 2);
  const double bytes = shared_bytes(cut, of);
  if (bytes > shared_limit(cut.tile, of)) return;
  cut.shared_bytes = static_cast<std::size_t>(bytes);
  cut.units = ceil_div(std::max<int64_t>(sizes.images, 1), box_n) * cut.bands * cut.columns;
  try_parts(cut);
}

void Search::try_parts(FewWeightsCut cut) {
  const int blocks_at_once = few_weights_blocks_at_once(cut.tile, of);

  const double of_unit = few_weights_unit_clocks({
      .tile_m = cut.tile.m,
      .tile_n = cut.tile.n,
      .products = of.products,
      .halves = of.halves(),
      .scales = of.scales(),
      .stored_bytes = of.stored_bytes(),
      .warps = static_cast<double>(cut.warps()),
      .steps = static_cast<double>(ceil_div(cut.steps(), cut.warps_k)),
      .x_elements = static_cast<double>(cut.x_elements),
      .dy_elements = static_cast<double>(cut.dy_elements()),
      .x_vector = static_cast<double>(x_vector(sizes.w, of)),
      .dy_vector = static_cast<double>(vector_of(sizes.w.outputs, of)),
      .blocks_at_once = blocks_at_once,
  });
  FewWeightsShares shares{.blocks = static_cast<double>(cut.blocks_of_part(sizes.groups)),
                          .units = static_cast<double>(cut.units),
                          .weights_bytes = 4.0 * static_cast<double>(sizes.weights()),
                          .blocks_at_once = blocks_at_once};
  const double max_parts = std::max(1.0, std::floor(parts_limit / shares.weights_bytes));
  for (const int waves : {1, 2, 4}) {
    const double slots = few_weights_units * blocks_at_once;
    shares.parts = std::clamp(std::floor(waves * slots / shares.blocks), 1.0,
                              std::min(shares.units, max_parts));
    const double clocks = few_weights_clocks(of_unit, shares);
    if (best && best->clocks <= clocks) continue;
    cut.parts = static_cast<int64_t>(shares.parts);
    cut.clocks = clocks;
    best = cut;
  }
}

}  // namespace

std::optional<FewWeightsCut> cut_few_weights(const WeightsSizes& sizes, const FewWeightsClass& of,
                                             FewWeightsChoice choice) {
  Search search{sizes, of, choice};
  for (const FewWeightsTile& tile : few_weights_tiles)
    if (!choice.tile || tile == *choice.tile)
      for (int outer = 1; outer <= std::min(sizes.h.taps, 16); ++outer)
        if (choice.outer == 0 || outer == choice.outer) search.try_tile(tile, outer);
  if (!search.best) return std::nullopt;
  return spread_columns(sizes, of, *search.best);
}

double few_weights_chain(const WeightsSizes& sizes, const FewWeightsCut& cut,
                         const FewWeightsClass& of) {
  const double run = static_cast<double>(ceil_div(cut.steps(), cut.warps_k)) * few_weights_step;
  const double units = std::ceil(static_cast<double>(cut.units) / static_cast<double>(cut.parts));
  const double passes = of.scales() ? few_weights_range_passes : 1;
  // The small ones of three products are 2^-11 of the sum of magnitudes each, and added once.
  const double small = of.splits() ? 0x1p-10 * run + 1 : 0;
  const double parts = std::ceil(static_cast<double>(cut.parts) / finish_rows);
  const double chain = run + small + units * passes + cut.warps_k + parts + std::log2(finish_rows);
  const double terms = static_cast<double>(sizes.images) * static_cast<double>(sizes.h.outputs) *
                       static_cast<double>(sizes.w.outputs);
  // No more than all terms, of all products, one by one.
  return std::min(chain, std::max(terms, 1.0) * of.products + few_weights_step);
}

std::optional<FewWeightsPlan> plan_few_weights(const ConvProblem& problem,
                                               const FewWeightsClass& of, FewWeightsChoice choice) {
  const auto sizes = weights_sizes(problem);
  if (!sizes) return std::nullopt;
  const auto cut = cut_few_weights(*sizes, of, choice);
  constexpr double max_blocks = 0x7fff0000;
  if (!cut ||
      static_cast<double>(cut->blocks_of_part(sizes->groups)) * static_cast<double>(cut->parts) >
          max_blocks ||
      static_cast<double>(sizes->weights()) > max_blocks)
    return std::nullopt;
  return FewWeightsPlan{of, *sizes, *cut, weights_strides(problem)};
}

}  // namespace plumb::cuda
