// How a convolution is cut into blocks: every cut that fits shared memory is estimated, and the
// least estimate is taken. What decides the order of sums (lead, halves) follows from the layout.
#include <algorithm>
#include <cstdlib>

#include "cuda_kernels/cost/depthwise_toeplitz.hpp"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

constexpr int64_t half = depthwise_toeplitz_half;
constexpr int64_t shared_limit = 225 << 10;   ///< bytes of a block
constexpr int64_t shared_of_all = 227 << 10;  ///< bytes of a multiprocessor
constexpr int64_t max_rows = 1 << 11;         ///< of x, that a block finds the places of
constexpr int64_t max_place = 1 << 16;        ///< elements that the table of whole planes reaches

double number(int64_t value) { return static_cast<double>(value); }
int64_t round_up(int64_t value, int64_t to) { return ceil_div(value, to) * to; }

DepthwiseToeplitzAxis axis(int64_t extent, int64_t taps, int64_t outputs, int64_t stride,
                           int64_t dilation, int64_t before) {
  return {.extent = static_cast<int>(extent),
          .taps = static_cast<int>(taps),
          .outputs = static_cast<int>(outputs),
          .stride = outputs > 1 ? static_cast<int>(stride) : 1,
          .dilation = taps > 1 ? static_cast<int>(dilation) : 1,
          .before = static_cast<int>(before)};
}

/// The columns of x that eight outputs read, in halves.
int64_t halves_of(const DepthwiseToeplitzAxis& w, int64_t lead) {
  return ceil_div(lead + int64_t{7} * w.stride + w.reach(), half);
}

/// Columns that move at once, where a row of a tensor is divided into as many and all rows are
/// aligned; 1 where there are none.
int vector_of(const Extents& extents, const Strides& strides, int most) {
  const int last = extents.rank() - 1;
  if (extents[last] > 1 && strides[last] != 1) return 1;
  for (int vector = most; vector > 1; vector /= 2) {
    bool aligned = extents[last] % vector == 0;
    for (int i = 0; i < last; ++i)
      aligned = aligned && (extents[i] == 1 || strides[i] % vector == 0);
    if (aligned) return vector;
  }
  return 1;
}

/// Whether channels lie side by side, in whole vectors of eight.
bool channels_in_vectors(const Extents& extents, const Strides& strides) {
  bool aligned = strides[1] == 1 && extents[1] % 8 == 0;
  for (int i = 0; i < extents.rank(); ++i)
    aligned = aligned && (i == 1 || extents[i] == 1 || strides[i] % 8 == 0);
  return aligned;
}

/// Whether planes lie side by side, and those of so many channels are whole vectors of eight.
bool planes_in_vectors(const Extents& extents, const Strides& strides, int channels) {
  const int64_t plane = extents[2] * extents[3];
  const bool dense = (extents[3] == 1 || strides[3] == 1) &&
                     (extents[2] == 1 || strides[2] == extents[3]) && strides[1] == plane;
  return dense && channels * plane % 8 == 0 && extents[1] * plane % 8 == 0 &&
         (extents[0] == 1 || strides[0] % 8 == 0);
}

struct Search {
  const ConvProblem& problem;
  const DeviceInfo& device;
  const DepthwiseToeplitzChoice& choice;
  DepthwiseToeplitzAxis h, w;
  DepthwiseToeplitzCut layout = {};
  std::optional<DepthwiseToeplitzPlan> best = {};

  void choose_layout();
  void try_tile(DepthwiseToeplitzCut cut, int64_t tiles);
  void try_channels(DepthwiseToeplitzCut cut);
  void try_block(DepthwiseToeplitzCut cut);
  void move_planes(DepthwiseToeplitzCut& cut) const;
  bool place(DepthwiseToeplitzCut& cut) const;
  DepthwiseToeplitzWork work_of(const DepthwiseToeplitzCut& cut) const;
  void add_sums(const DepthwiseToeplitzCut& cut, DepthwiseToeplitzWork& work) const;
};

/// How both tensors move, and where columns begin: at vectors of x where these are no more steps
/// than the narrowest ones. The order of sums follows from the sizes of a row, and not from N.
void Search::choose_layout() {
  const Extents x = problem.x_extents(), y = problem.y_extents();
  const auto move = [](const Extents& extents, const Strides& strides, int vector) {
    if (vector > 1) return DepthwiseToeplitzMove::columns;
    if (channels_in_vectors(extents, strides)) return DepthwiseToeplitzMove::channels;
    return extents[1] > 1 && std::abs(strides[1]) == 1 ? DepthwiseToeplitzMove::elements_of_channels
                                                       : DepthwiseToeplitzMove::elements;
  };
  const auto lead_of = [&](int vector) { return (vector - w.before % vector) % vector; };
  int vector = 1;
  if (w.extent > 1 && problem.x_strides[x.rank() - 1] == 1) {
    for (vector = 8; vector > 1 && w.extent % vector != 0;) vector /= 2;
    while (vector > 2 && halves_of(w, lead_of(vector)) > halves_of(w, lead_of(2))) vector /= 2;
  }
  // Of channels pairs of columns move.
  if (w.extent > 1 && problem.x_strides[1] == 1 && problem.c % 8 == 0 && vector == 1 &&
      halves_of(w, lead_of(2)) == halves_of(w, 0))
    vector = 2;
  layout.lead = lead_of(vector);
  layout.halves = static_cast<int>(halves_of(w, layout.lead));
  layout.x_vector = vector_of(x, problem.x_strides, vector);
  layout.x_move = move(x, problem.x_strides, layout.x_vector);
  layout.y_vector = vector_of(y, problem.y_strides, 8);
  layout.y_move = move(y, problem.y_strides, layout.y_vector);
  layout.copies = w.stride % 2 == 1 ? 2 : 1;
  layout.taps_words = static_cast<int>(ceil_div(half * layout.halves + int64_t{7} * w.stride, 2));
}

void Search::try_tile(DepthwiseToeplitzCut cut, int64_t tiles) {
  const int64_t all = ceil_div(int64_t{w.outputs}, half);
  cut.blocks_q = ceil_div(all, tiles);
  cut.tiles = static_cast<int>(tiles);
  int64_t last = 0;
  for (const int64_t most : {int64_t{h.outputs}, int64_t{128}, int64_t{64}, int64_t{48},
                             int64_t{32}, int64_t{16}, int64_t{8}}) {
    if (most > h.outputs && last != 0) continue;
    // Bands of whole fragments, as long as each other.
    const int64_t bands = ceil_div(int64_t{h.outputs}, most);
    int64_t rows = bands == 1 ? h.outputs
                              : std::min(round_up(ceil_div(int64_t{h.outputs}, bands), 16),
                                         std::max<int64_t>(most, 1));
    if (choice.rows > 0) rows = std::min<int64_t>(choice.rows, h.outputs);
    if (rows == last) continue;
    last = rows;
    cut.rows = static_cast<int>(rows);
    cut.blocks_p = ceil_div(int64_t{h.outputs}, rows);
    const int64_t max_images = cut.blocks_p == 1 ? std::min<int64_t>(problem.n, 32) : 1;
    for (int64_t images = 1; images <= max_images; images *= 2) {
      cut.images = static_cast<int>(choice.images > 0 && cut.blocks_p == 1
                                        ? std::min<int64_t>(choice.images, problem.n)
                                        : images);
      cut.blocks_n = ceil_div(problem.n, cut.images);
      try_channels(cut);
    }
  }
}

void Search::try_channels(DepthwiseToeplitzCut cut) {
  const bool in_vectors = cut.x_move == DepthwiseToeplitzMove::channels ||
                          cut.y_move == DepthwiseToeplitzMove::channels;
  for (int64_t channels = in_vectors ? 8 : 1; channels <= 32; channels *= 2) {
    if (choice.channels > 0) channels = in_vectors ? round_up(choice.channels, 8) : choice.channels;
    cut.channels = static_cast<int>(std::min<int64_t>(channels, problem.c));
    cut.blocks_c = ceil_div(problem.c, cut.channels);
    cut.warps = std::min(cut.channels, depthwise_toeplitz_warps);
    try_block(cut);
    if (cut.blocks_c == 1 || choice.channels > 0) break;
  }
}

/// Finds pitches at which rows of a fragment and channels of a vector lie in different banks.
bool Search::place(DepthwiseToeplitzCut& cut) const {
  const int64_t under = int64_t{cut.rows - 1} * h.stride + h.reach();
  // Rows of the next image lie as many banks behind the last as a next row would.
  int64_t phase_rows = std::max<int64_t>(ceil_div(under, h.stride), cut.rows);
  int64_t image_rows = phase_rows * h.stride;
  if (cut.images > 1) image_rows += (cut.rows % 8 - image_rows % 8 + 8) % 8;
  const int64_t read = (round_up(cut.tiles, cut.tile.n) - 1) * w.stride + cut.halves;
  const int64_t pitch = half * (read | 1);
  int64_t plane = cut.images * image_rows * pitch;
  if (plane / half % 2 == 0) plane += half;
  const int64_t x_rows = cut.images * std::min<int64_t>(under, h.extent);
  if (x_rows > max_rows || plane > shared_limit) return false;
  cut.phase_rows = static_cast<int>(phase_rows), cut.image_rows = static_cast<int>(image_rows);
  cut.pitch = static_cast<int>(pitch), cut.plane = static_cast<int>(plane);
  cut.x_rows = static_cast<int>(x_rows);
  const int64_t places = 8 * round_up(x_rows + cut.m(), 2);
  const int64_t taps = 4 * round_up(int64_t{cut.channels} * cut.filter_words(h.taps), 4);
  const int64_t bytes =
      places + 2 * int64_t{cut.table_elements} + taps + 2 * int64_t{cut.plane_at(cut.channels)};
  if (bytes > shared_limit || bytes > static_cast<int64_t>(device.shared_memory_bytes))
    return false;
  cut.shared_bytes = static_cast<std::size_t>(bytes);
  return true;
}

/// Blocks of whole planes, all of whose input some tap reads, move them in vectors.
void Search::move_planes(DepthwiseToeplitzCut& cut) const {
  const auto reads_all = [](const DepthwiseToeplitzAxis& of) {
    return of.stride == 1 && of.before >= 0 &&
           int64_t{of.outputs} - 1 + of.reach() >= int64_t{of.before} + of.extent;
  };
  const auto in_vectors = [&](DepthwiseToeplitzMove& move, const Extents& extents,
                              const Strides& strides) {
    const int64_t elements = cut.channels * extents[2] * extents[3];
    if (move != DepthwiseToeplitzMove::elements || elements > max_place ||
        !planes_in_vectors(extents, strides, cut.channels))
      return;
    move = DepthwiseToeplitzMove::planes;
    cut.table_elements += static_cast<int>(elements);
  };
  if (reads_all(h) && reads_all(w)) in_vectors(cut.x_move, problem.x_extents(), problem.x_strides);
  in_vectors(cut.y_move, problem.y_extents(), problem.y_strides);
}

void Search::try_block(DepthwiseToeplitzCut cut) {
  constexpr double max_blocks = 0x7fff0000;
  if (cut.blocks_p == 1 && cut.blocks_q == 1) move_planes(cut);
  if (!place(cut)) return;
  if (cut.table_elements > 0 && cut.plane_at(cut.channels) > max_place) {
    cut.x_move = layout.x_move, cut.y_move = layout.y_move, cut.table_elements = 0;
    if (!place(cut)) return;
  }
  if (number(cut.blocks_n) * number(cut.blocks_c) * number(cut.blocks_p) * number(cut.blocks_q) >
      max_blocks)
    return;
  const double seconds = depthwise_toeplitz_seconds(problem, device, work_of(cut));
  if (!best || seconds < best->seconds) best = DepthwiseToeplitzPlan{h, w, cut, seconds};
}

DepthwiseToeplitzMoved moved(DepthwiseToeplitzMove move, int vector, double columns) {
  DepthwiseToeplitzMoved items;
  if (move == DepthwiseToeplitzMove::columns)
    items.vectors = columns / vector;
  else if (move == DepthwiseToeplitzMove::channels)
    items.pixels = columns / 16;
  else if (move == DepthwiseToeplitzMove::planes)
    items.octets = columns / 8;
  else
    items.elements = columns;
  return items;
}

DepthwiseToeplitzWork Search::work_of(const DepthwiseToeplitzCut& cut) const {
  DepthwiseToeplitzWork work{.blocks = number(cut.blocks()), .warps = number(cut.warps)};
  const double registers = depthwise_toeplitz_blocks * depthwise_toeplitz_warps / cut.warps;
  const double room = number(shared_of_all / (static_cast<int64_t>(cut.shared_bytes) + 1024));
  work.resident = std::max(1.0, std::min({room, registers, 32.0}));
  work.zero_vectors = static_cast<double>(cut.shared_bytes) / 16;
  work.rows = cut.x_rows + cut.m();
  work.table = cut.table_elements;
  work.taps = number(int64_t{cut.channels} * h.taps * w.taps);
  const double read =
      number(std::min<int64_t>(half * (int64_t{cut.tiles - 1} * w.stride + cut.halves), w.extent));
  const double written = std::min(cut.columns(), w.outputs);
  work.loaded = moved(cut.x_move, cut.x_vector, cut.channels * cut.x_rows * read);
  work.stored = moved(cut.y_move, cut.y_vector, cut.channels * cut.m() * written);
  const double bytes = number(static_cast<int64_t>(size_in_bytes(problem.dtype)));
  const double x_bytes =
      bytes * number(problem.n) * number(problem.c) * number(problem.h) * number(problem.w);
  work.read_again_bytes =
      std::max(0.0, bytes * work.blocks * cut.channels * cut.x_rows * read - x_bytes);
  // Eight channels are half a sector, whose other half the next block moves.
  const bool halves = cut.channels % 16 != 0 && cut.blocks_c > 1;
  if (halves && cut.x_move == DepthwiseToeplitzMove::channels) work.half_sector_bytes += x_bytes;
  if (halves && cut.y_move == DepthwiseToeplitzMove::channels)
    work.half_sector_bytes +=
        bytes * number(problem.n) * number(problem.k) * number(problem.p()) * number(problem.q());
  add_sums(cut, work);
  return work;
}

/// What the warps of a block sum.
void Search::add_sums(const DepthwiseToeplitzCut& cut, DepthwiseToeplitzWork& work) const {
  const int m = cut.tile.m, n = cut.tile.n;
  const double turns =
      number(ceil_div(int64_t{cut.m()}, int64_t{16} * m)) * number(ceil_div(cut.tiles, n));
  const double of_turn = h.taps, steps = cut.halves / 2, half_steps = cut.halves % 2;
  const double all = turns * cut.channels;
  work.tap_rows = all * of_turn;
  work.steps = work.tap_rows * steps, work.half_steps = work.tap_rows * half_steps;
  // Every second tile of neighbours has two products of 8 terms.
  const double halved = w.stride == 1 ? n / 2 : 0;
  work.products = work.steps * m * (n - halved);
  work.half_products = work.half_steps * m * n + work.steps * m * 2 * halved;
  const double halves_of_step = w.stride == 1 ? n + 1 : 2 * n;
  work.halves = work.steps * m * halves_of_step + work.half_steps * m * n;
  work.loads = work.steps * m * number(ceil_div(static_cast<int>(halves_of_step), 2)) +
               work.half_steps * m * number(ceil_div(n, 2));
  work.products_of_step = m * n;
  work.pairs = 64.0 * all * m * n;
  work.longest_steps =
      number(ceil_div(cut.channels, cut.warps)) * turns * of_turn * (steps + half_steps);
}

}  // namespace

std::optional<DepthwiseToeplitzPlan> plan_depthwise_toeplitz(
    const ConvProblem& p, const DeviceInfo& device, const DepthwiseToeplitzChoice& choice) {
  Search search{.problem = p,
                .device = device,
                .choice = choice,
                .h = axis(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
                .w = axis(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left)};
  search.choose_layout();
  const int64_t all = ceil_div(int64_t{search.w.outputs}, half);
  for (const DepthwiseToeplitzTile& tile : depthwise_toeplitz_tiles) {
    if (choice.tile && !(tile == *choice.tile)) continue;
    DepthwiseToeplitzCut cut = search.layout;
    cut.tile = tile;
    int64_t last = 0;
    for (const int64_t parts : {1, 2, 3, 4, 6, 8, 16, 64, 256, 4096, 1 << 20}) {
      int64_t tiles = ceil_div(all, parts);
      if (parts > 1) tiles = round_up(tiles, tile.n);
      if (choice.tiles > 0) tiles = std::min<int64_t>(choice.tiles, all);
      if (tiles == last || tiles > all) continue;
      last = tiles;
      // Narrow blocks are for rows that no shared memory holds.
      if (parts > 8 && search.best) break;
      search.try_tile(cut, tiles);
    }
  }
  return search.best;
}

double depthwise_toeplitz_chain(const ConvProblem& p) {
  const DepthwiseToeplitzAxis w = axis(p.w, p.s, 2, p.stride.w, p.dilation.w, p.padding.left);
  return number(p.r) * number(round_up(half * halves_of(w, half - 1), 2 * half));
}

}  // namespace plumb::cuda
