// How backward weights is cut for wgmma. The cut depends on the problem's sizes alone, and not on
// the device: it is the order of the sums.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/few_weights.hpp"
#include "cuda_kernels/cost/octet_weights.hpp"
#include "cuda_kernels/octet_weights/octet_weights.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

constexpr double parts_limit = 64 << 20;  // bytes of workspace
constexpr int magnitudes_bytes = 64;

int64_t round_up(int64_t number, int64_t multiple) { return ceil_div(number, multiple) * multiple; }

/// Elements that can be copied at once where rows have so many, if they lie side by side.
int vector_of(int64_t extent) { return extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1; }
int x_vector(const WeightsAxis& w) {
  return w.stride == 1 && w.unit == 1 ? vector_of(w.extent) : 1;
}

/// Of a block, where two or one share a multiprocessor.
double shared_limit(const OctetForm& form) { return (form.blocks_at_once == 2 ? 112 : 225) << 10; }

/// Elements of a step that no halves' sums go beyond before they are moved.
constexpr int max_steps = few_weights_max_steps;

/// Taps of one phase along both axes: a grid of rows and columns that are a stride apart.
struct Grid {
  int t, r, s, rows, columns, row_step, column_step;

  /// Whole tiles along each row, and what is left over along rows too or down its columns.
  template <class Put>
  void cover(const Put& put) const {
    const int whole = columns / octet_tile, left = columns % octet_tile;
    const bool down = left * ceil_div(rows, octet_tile) < rows;
    for (int row = 0; row < rows; ++row)
      for (int i = 0; i < whole + (left > 0 && !down ? 1 : 0); ++i)
        put(tile(row, i * octet_tile, false));
    if (!down) return;
    for (int column = whole * octet_tile; column < columns; ++column)
      for (int row = 0; row < rows; row += octet_tile) put(tile(row, column, true));
  }

 private:
  OctetTaps tile(int row, int column, bool down) const {
    return {static_cast<std::int16_t>(t), static_cast<std::int16_t>(r + row * row_step),
            static_cast<std::int16_t>(s + column * column_step), static_cast<std::int16_t>(down)};
  }
};

/// The search for the cut that takes the fewest clocks, of a model that no device has a say in.
struct Search {
  const WeightsSizes& sizes;
  OctetWeightsChoice choice;
  int tap_tiles;
  std::optional<OctetWeightsCut> best = {};

  void try_form(const OctetForm& form);
  void try_block(OctetWeightsCut cut);
  void try_box(OctetWeightsCut cut, int64_t box_n, int64_t bands, int64_t columns);
  void try_parts(OctetWeightsCut cut);
};

void Search::try_form(const OctetForm& form) {
  OctetWeightsCut cut{.form = form, .tap_tiles = tap_tiles};
  FewWeightsCut& few = cut.few;
  few.blocks_k = ceil_div(sizes.group_k, int64_t{octet} * form.filters);
  few.block_k = static_cast<int>(ceil_div(sizes.group_k, few.blocks_k));
  few.blocks_k = ceil_div(sizes.group_k, few.block_k);
  cut.filter_octets = static_cast<int>(ceil_div(few.block_k, octet));
  if (cut.filter_octets != form.filters) return;
  few.inner = sizes.h.taps;
  few.row_planes = sizes.h.dilation <= 1 ? std::min(sizes.h.stride, few.inner) : sizes.h.stride;
  few.max_row_shift = static_cast<int>(int64_t{few.inner - 1} * sizes.h.dilation / sizes.h.stride);
  few.warps_m = 4, few.warps_n = octet_warpgroups, few.warps_k = 1;
  const int64_t room = octet_warpgroups * form.tiles, all = ceil_div(sizes.group_c, octet);
  const int64_t most = std::clamp<int64_t>(room / tap_tiles, 1, all);
  few.blocks_c = ceil_div(all, most);
  cut.channel_octets = static_cast<int>(ceil_div(all, few.blocks_c));
  few.block_c = static_cast<int>(std::min<int64_t>(sizes.group_c, cut.channel_octets * octet));
  few.blocks_c = ceil_div(all, cut.channel_octets);
  const int64_t tiles = int64_t{cut.channel_octets} * tap_tiles;
  few.blocks_l = ceil_div(tiles, room);
  few.block_columns = static_cast<int>(ceil_div(tiles, few.blocks_l));
  few.blocks_l = ceil_div(tiles, few.block_columns);
  try_block(cut);
}

void Search::try_block(OctetWeightsCut cut) {
  const int64_t rows = sizes.h.outputs, q = sizes.w.outputs;
  int64_t last_columns = 0;
  for (const int64_t width : {512, 256, 128, 96, 64, 48, 32, 24, 16, 8}) {
    const int64_t columns = ceil_div(q, width);
    if (columns == last_columns) continue;
    last_columns = columns;
    int64_t last_bands = 0;
    for (const int64_t height : {128, 64, 48, 32, 24, 20, 16, 12, 10, 8, 6, 4, 2, 1}) {
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

void Search::try_box(OctetWeightsCut cut, int64_t box_n, int64_t bands, int64_t columns) {
  FewWeightsCut& few = cut.few;
  const int64_t q = sizes.w.outputs;
  const int64_t box_q = columns == 1 ? q : round_up(ceil_div(q, columns), octet);
  int64_t box_p = ceil_div(sizes.h.outputs, bands), dy_pitch = round_up(box_q, octet);
  // A step is 16 columns, or eight of each of two rows: whichever has fewer beyond the image.
  const int64_t even_p = round_up(box_p, 2), even_q = round_up(box_q, few_weights_step);
  cut.row_pairs = even_p * dy_pitch < box_p * even_q;
  if (cut.row_pairs)
    box_p = even_p;
  else
    dy_pitch = even_q;
  few.bands = ceil_div(sizes.h.outputs, box_p), few.columns = ceil_div(q, box_q);
  const int64_t x_copied = x_vector(sizes.w), behind = sizes.w.before % x_copied;
  few.lead = static_cast<int>(behind == 0 ? 0 : x_copied - behind);
  const int64_t pitch = round_up(few.lead + box_q + sizes.max_shift, x_copied);
  const int64_t x_rows = box_p + few.max_row_shift;
  // Steps read beyond a row, where gradients are zero.
  const int64_t x_plane =
      round_up((x_rows - 1) * pitch + few.lead + dy_pitch + sizes.max_shift, octet);
  const int64_t dy_plane = box_p * dy_pitch;
  const double elements =
      static_cast<double>(box_n) *
      (static_cast<double>(cut.channel_octets) * octet * few.planes(sizes) *
           static_cast<double>(x_plane) +
       static_cast<double>(cut.filter_octets) * octet * static_cast<double>(dy_plane));
  if (elements > 1 << 17) return;
  few.box_n = static_cast<int>(box_n), few.box_p = static_cast<int>(box_p);
  few.box_q = static_cast<int>(box_q), few.pitch = static_cast<int>(pitch);
  few.dy_pitch = static_cast<int>(dy_pitch);
  few.x_rows = static_cast<int>(x_rows), few.dy_rows = static_cast<int>(box_p);
  few.x_plane = static_cast<int>(x_plane), few.dy_plane = static_cast<int>(dy_plane);
  few.dy_filter = static_cast<int>(box_n * dy_plane);
  few.x_elements = static_cast<int>(box_n * few.x_image(sizes));
  cut.row_steps = static_cast<int>(dy_pitch / (cut.row_pairs ? octet : few_weights_step));
  cut.rows = static_cast<int>(cut.row_pairs ? box_p / 2 : box_p);
  few.image_steps = cut.row_steps * cut.rows;
  if (few.steps() > max_steps) return;
  cut.x_high = octet * few.box_n * cut.x_image(sizes);
  cut.dy_high = octet * cut.filter_octets * cut.dy_octet();
  const double stored = magnitudes_bytes + 4.0 * (few.x_elements + few.dy_elements());
  // Octets behind the last tap are read too, wherever that is. compute-sanitizer takes an
  // instruction's A for so many bytes that follow each other, though its octets overlap.
  constexpr double instruction_bytes = 64 * few_weights_step * 2;
  const double behind_taps = 2.0 * octet * octet_tile *
                             std::max(sizes.w.dilation, std::max(sizes.h.dilation, 1) * few.pitch);
  const double reach = std::max(instruction_bytes, behind_taps);
  const double bytes = stored + 4.0 * cut.x_high + std::max(4.0 * cut.dy_high, reach);
  if (bytes > shared_limit(cut.form)) return;
  few.shared_bytes = static_cast<std::size_t>(bytes);
  few.units = ceil_div(std::max<int64_t>(sizes.images, 1), box_n) * few.bands * few.columns;
  try_parts(cut);
}

void Search::try_parts(OctetWeightsCut cut) {
  FewWeightsCut& few = cut.few;
  const double of_unit = octet_weights_unit_clocks({
      .filter_octets = cut.filter_octets,
      .joint = octet_joint(cut.filter_octets),
      .tiles = static_cast<double>(few.block_columns),
      .tiles_of_warpgroup = static_cast<double>(ceil_div(few.block_columns, octet_warpgroups)),
      .steps = static_cast<double>(few.steps()),
      .x_elements = static_cast<double>(few.x_elements),
      .dy_elements = static_cast<double>(few.dy_elements()),
      .x_vector = static_cast<double>(x_vector(sizes.w)),
      .dy_vector = static_cast<double>(vector_of(sizes.w.outputs)),
      .blocks_at_once = cut.form.blocks_at_once,
  });
  FewWeightsShares shares{.blocks = static_cast<double>(few.blocks_of_part(sizes.groups)),
                          .units = static_cast<double>(few.units),
                          .weights_bytes = 4.0 * static_cast<double>(sizes.weights()),
                          .blocks_at_once = cut.form.blocks_at_once};
  const double max_parts = std::max(1.0, std::floor(parts_limit / shares.weights_bytes));
  for (const int waves : {1, 2, 4}) {
    const double slots = few_weights_units * shares.blocks_at_once;
    shares.parts = std::clamp(std::floor(waves * slots / shares.blocks), 1.0,
                              std::min(shares.units, max_parts));
    const double clocks = few_weights_clocks(of_unit, shares);
    if (best && best->few.clocks <= clocks) continue;
    few.parts = static_cast<int64_t>(shares.parts);
    few.clocks = clocks;
    best = cut;
  }
}

}  // namespace

int cover_taps(const WeightsSizes& sizes, OctetTaps* tiles) {
  int count = 0;
  const auto put = [&](const OctetTaps& taps) {
    if (tiles && count < octet_max_tap_tiles) tiles[count] = taps;
    ++count;
  };
  const int row_step = sizes.h.stride, column_step = sizes.w.stride;
  for (int t = 0; t < sizes.d.taps; ++t)
    for (int r = 0; r < std::min(row_step, sizes.h.taps); ++r)
      for (int s = 0; s < std::min(column_step, sizes.w.taps); ++s)
        Grid{t,
             r,
             s,
             static_cast<int>(ceil_div(sizes.h.taps - r, row_step)),
             static_cast<int>(ceil_div(sizes.w.taps - s, column_step)),
             row_step,
             column_step}
            .cover(put);
  return count;
}

double octet_weights_chain(const OctetWeightsPlan& plan) {
  return few_weights_chain(plan.sizes, plan.cut.few, few_weights_fp16x3_class);
}

std::optional<OctetWeightsPlan> plan_octet_weights(const ConvProblem& problem,
                                                   OctetWeightsChoice choice) {
  const auto sizes = weights_sizes(problem);
  constexpr std::int64_t max_taps = octet_max_tap_tiles * octet_tile;
  if (!sizes || sizes->taps() > max_taps) return std::nullopt;
  Search search{*sizes, choice, cover_taps(*sizes)};
  if (search.tap_tiles > octet_max_tap_tiles) return std::nullopt;
  for (const OctetForm& form : octet_forms)
    if (!choice.form || form == *choice.form) search.try_form(form);
  constexpr double max_blocks = 0x7fff0000;
  const auto& cut = search.best;
  if (!cut ||
      static_cast<double>(cut->few.blocks_of_part(sizes->groups)) *
              static_cast<double>(cut->few.parts) >
          max_blocks ||
      static_cast<double>(sizes->weights()) > max_blocks)
    return std::nullopt;
  OctetWeightsPlan plan{*sizes, *cut, weights_strides(problem)};
  cover_taps(*sizes, plan.taps);
  return plan;
}

}  // namespace plumb::cuda
