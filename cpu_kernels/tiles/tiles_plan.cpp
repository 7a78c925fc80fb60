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
  const ImageSteps x = image_steps(p);
  return x.c == 1 && (p.h == 1 || x.h == p.w * x.w) && (p.d == 1 || x.d == p.h * p.w * x.w);
}

}  // namespace

ImageSteps steps_of(const Strides& strides) {
  const bool deep = strides.rank() == 5;
  return {strides[0], strides[1], deep ? strides[2] : 0, strides[deep ? 3 : 2],
          strides[deep ? 4 : 3]};
}

ImageSteps image_steps(const ConvProblem& problem) { return steps_of(problem.x_strides); }
ImageSteps output_steps(const ConvProblem& problem) { return steps_of(problem.y_strides); }

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

TilesPlan::TilesPlan(const ConvProblem& p, int64_t threads)
    : group_c(p.c / p.groups),
      group_k(p.k / p.groups),
      output_planes(p.z()),
      output_rows(p.p()),
      output_columns(p.q()) {
  order_steps(p);
  pointwise = p.t * p.r * p.s == 1;
  stride_h = pointwise ? 1 : p.stride.h;
  stride_w = pointwise ? 1 : p.stride.w;
  width = (output_columns - 1) * stride_w + (p.s - 1) * p.dilation.w + 1;
  const int64_t row_elements = width * group_c;
  const int64_t row_bytes = p.t * row_elements * int64_t{sizeof(BFloat16)};
  const auto input_rows = [&](int64_t outputs) {
    return (outputs - 1) * stride_h + (p.r - 1) * p.dilation.h + 1;
  };
  in_place = pointwise && p.stride == Triple{1} && p.padding == Padding{} && is_one_row(p) &&
             group_c % tile_terms == 0 && p.d * p.h * p.w >= tile_side;
  meets_zeros = p.padding != Padding{} || run_terms % tile_terms != 0;
  // Filters that stay in no cache are read for each band.
  const bool filters_stay =
      packed_tiles() * packed_elements() * int64_t{sizeof(BFloat16)} <= filters_goal_bytes;
  const int64_t most_bytes = filters_stay ? small_slab_bytes : large_slab_bytes;
  rows = 1;
  while (rows < output_rows && input_rows(rows + 1) * row_bytes <= most_bytes) ++rows;
  // Enough bands for the threads, as long as they do not read most rows twice.
  const int64_t images = p.n * output_planes * p.groups;
  const int64_t wanted = ceil_div(2 * threads, std::max<int64_t>(images, 1));
  rows = std::min(rows,
                  std::max(ceil_div(output_rows, wanted), std::min<int64_t>(output_rows, 2 * p.r)));
  bands = ceil_div(output_rows, rows);
  rows = ceil_div(output_rows, bands);
  slab_rows = input_rows(rows);

  const auto columns = static_cast<double>(output_columns);
  const double in_rows =
      columns / static_cast<double>(round_up(output_columns, int64_t{tile_side}));
  const double in_one = columns / static_cast<double>(width);
  flat = stride_h == 1 && stride_w == 1 && (in_place || rows == 1 || in_one >= in_rows);
  row_places = flat ? width : output_columns;
  // Few positions read a block of filters once, and few filters a position.
  const int64_t in_a_row = flat ? (rows - 1) * row_places + output_columns : output_columns;
  tall = group_k <= tile_side || (flat && in_a_row > block_side && in_a_row <= max_positions);

  parts =
      std::clamp<int64_t>(ceil_div(2 * threads, std::max<int64_t>(images * bands, 1)), 1, blocks());
  positions_outside =
      ceil_div(packed_tiles(), parts) * packed_elements() * int64_t{sizeof(BFloat16)} <=
      filters_goal_bytes;
  for (const TilesStep& step : steps)
    offsets.push_back((step.t * slab_rows + step.r * p.dilation.h) * row_elements +
                      step.run * p.dilation.w * group_c + step.term);
  // A tile reads behind the last position, and a step behind its terms.
  const int64_t behind = tile_side * stride_w * group_c + tile_terms;
  if (!in_place)
    slab_bytes = padded((p.t * slab_rows * row_elements + behind) * int64_t{sizeof(BFloat16)});
  const double efficiency = flat && rows > 1 ? in_one : in_rows;
  products = static_cast<double>(p.n * output_planes * output_rows) * columns / efficiency *
             static_cast<double>(steps.size() * tile_terms) *
             static_cast<double>(p.groups * round_up(group_k, int64_t{tile_side}));
}

}  // namespace plumb
