#include "cpu_kernels/tiles/tiles_plan.hpp"

#include <algorithm>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"

namespace plumb {
namespace {

using std::int64_t;

// Of a core's level-2 cache, which has 1 MiB or more where there are such instructions.
constexpr int64_t small_slab_bytes = 256 << 10, large_slab_bytes = 640 << 10,
                  filters_goal_bytes = 512 << 10;

/// Whether all pixels of an image lie one behind the other, each with all of its channels.
bool is_one_row(const ConvProblem& p) {
  const ImageStrides x = input_strides(p);
  return x.c == 1 && (p.h == 1 || x.h == p.w * x.w) && (p.d == 1 || x.d == p.h * p.w * x.w);
}

}  // namespace

ImageStrides image_strides(const Strides& strides) {
  const bool deep = strides.rank() == 5;
  return {strides[0], strides[1], deep ? strides[2] : 0, strides[deep ? 3 : 2],
          strides[deep ? 4 : 3]};
}

ImageStrides input_strides(const ConvProblem& problem) { return image_strides(problem.x_strides); }
ImageStrides output_strides(const ConvProblem& problem) { return image_strides(problem.y_strides); }

int64_t TilesPlan::blocks() const { return ceil_div(group_k, block_filters()); }
int64_t TilesPlan::packed_tiles() const { return ceil_div(group_k, int64_t{tile_side}); }

/// Steps with the same few channels of all taps follow each other where steps are of one tap each:
/// the taps of a block of positions read the same pixels.
void TilesPlan::order_steps(const ConvProblem& p) {
  const bool folded = p.s == 1 || p.dilation.w == 1;
  const int64_t run_taps = folded ? p.s : 1, runs = folded ? 1 : p.s;
  run_terms = run_taps * group_c;
  const bool whole = group_c % tile_terms == 0;
  const int64_t stretch = whole ? group_c : run_terms, chunk = whole ? 2 * tile_terms : run_terms;
  for (int64_t first = 0; first < stretch; first += chunk)
    for (int64_t t = 0; t < p.t; ++t)
      for (int64_t r = 0; r < p.r; ++r)
        for (int64_t run = 0; run < runs; ++run)
          for (int64_t tap = 0; tap < run_terms; tap += stretch)
            for (int64_t c = first; c < std::min(first + chunk, stretch); c += tile_terms)
              steps.push_back({t, r, run, tap + c});
}

int64_t TilesPlan::input_rows(const ConvProblem& p, int64_t outputs) const {
  return ((by_images ? 1 : outputs) - 1) * stride_h + (p.r - 1) * p.dilation.h + 1;
}

int64_t TilesPlan::slab_elements(const ConvProblem& p, int64_t outputs) const {
  return (by_images ? outputs : 1) * p.t * input_rows(p, outputs) * row_elements();
}

bool TilesPlan::reads_in_place(const ConvProblem& p) const {
  const int64_t pixels = p.d * p.h * p.w;
  return pointwise && p.padding == Padding{} && group_c % tile_terms == 0 &&
         (by_images ? pixels == 1 && input_strides(p).c == 1 && p.n >= tile_side
                    : p.stride == Triple{1} && is_one_row(p) && pixels >= tile_side);
}

void TilesPlan::cut_into_bands(const ConvProblem& p, int64_t threads) {
  // Filters that stay in no cache are read for each band.
  const bool filters_stay =
      packed_tiles() * packed_elements() * int64_t{sizeof(BFloat16)} <= filters_goal_bytes;
  const int64_t most =
      (filters_stay ? small_slab_bytes : large_slab_bytes) / static_cast<int64_t>(sizeof(BFloat16));
  rows = 1;
  while (rows < output_rows && slab_elements(p, rows + 1) <= most) ++rows;
  // Enough bands for the threads, as long as they do not read most rows twice.
  const int64_t wanted = ceil_div(2 * threads, std::max<int64_t>(images_of_bands(p), 1));
  const int64_t least = std::min(output_rows, by_images ? tile_side : 2 * p.r);
  rows = std::min(rows, std::max(ceil_div(output_rows, wanted), least));
  bands = ceil_div(output_rows, rows);
  rows = ceil_div(output_rows, bands);
  slab_rows = input_rows(p, rows);
  image_elements = p.t * slab_rows * row_elements();
}

void TilesPlan::cut_into_blocks(const ConvProblem& p, int64_t threads) {
  // Few positions read a block of filters once, and few filters a position.
  const int64_t in_a_row = flat ? (rows - 1) * row_places + output_columns : output_columns;
  tall = group_k <= tile_side || (flat && in_a_row > block_side && in_a_row <= max_positions);
  const int64_t all_bands = std::max<int64_t>(images_of_bands(p) * bands, 1);
  parts = std::clamp<int64_t>(ceil_div(2 * threads, all_bands), 1, blocks());
  positions_outside =
      ceil_div(packed_tiles(), parts) * packed_elements() * int64_t{sizeof(BFloat16)} <=
      filters_goal_bytes;
}

TilesPlan::TilesPlan(const ConvProblem& p, int64_t threads)
    : group_c(p.c / p.groups),
      group_k(p.k / p.groups),
      output_planes(p.z()),
      output_rows(p.p()),
      output_columns(p.q()) {
  by_images = p.n > 1 && output_planes * output_rows * output_columns == 1;
  if (by_images) output_rows = p.n;
  order_steps(p);
  pointwise = p.t * p.r * p.s == 1;
  stride_h = pointwise ? 1 : p.stride.h;
  stride_w = pointwise ? 1 : p.stride.w;
  width = (output_columns - 1) * stride_w + (p.s - 1) * p.dilation.w + 1;
  in_place = reads_in_place(p);
  meets_zeros = p.padding != Padding{} || run_terms % tile_terms != 0;
  cut_into_bands(p, threads);

  // What of the positions that are formed are outputs: in rows by themselves, and in one row.
  const int64_t in_a_row = by_images ? rows : output_columns;
  const double in_rows =
      static_cast<double>(in_a_row) / static_cast<double>(round_up(in_a_row, int64_t{tile_side}));
  const double in_one = static_cast<double>(output_columns) / static_cast<double>(width);
  flat =
      by_images || (stride_h == 1 && stride_w == 1 && (in_place || rows == 1 || in_one >= in_rows));
  row_places = flat && !by_images ? width : output_columns;
  place_elements = by_images ? image_elements : stride_w * group_c;
  cut_into_blocks(p, threads);

  for (const TilesStep& step : steps)
    offsets.push_back((step.t * slab_rows + step.r * p.dilation.h) * row_elements() +
                      step.run * p.dilation.w * group_c + step.term);
  // A tile reads behind the last position, and a step behind its terms.
  const int64_t behind = tile_side * place_elements + tile_terms;
  if (!in_place) slab_bytes = padded((slab_elements(p, rows) + behind) * int64_t{sizeof(BFloat16)});
  const double efficiency = flat && !by_images && rows > 1 ? in_one : in_rows;
  products = static_cast<double>(p.n * p.z() * p.p() * p.q()) / efficiency *
             static_cast<double>(steps.size() * tile_terms) *
             static_cast<double>(p.groups * round_up(group_k, int64_t{tile_side}));
}

}  // namespace plumb
