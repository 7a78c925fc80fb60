#include "cpu_kernels/tiles/tiles_plan.hpp"

#include <algorithm>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t slab_goal_bytes = 256 << 10;

ImageSteps steps_of(const Strides& strides) {
  const bool deep = strides.rank() == 5;
  return {strides[0], strides[1], deep ? strides[2] : 0, strides[deep ? 3 : 2],
          strides[deep ? 4 : 3]};
}

}  // namespace

ImageSteps image_steps(const ConvProblem& problem) { return steps_of(problem.x_strides); }
ImageSteps output_steps(const ConvProblem& problem) { return steps_of(problem.y_strides); }

TilesPlan::TilesPlan(const ConvProblem& p, int64_t threads)
    : group_c(p.c / p.groups), group_k(p.k / p.groups) {
  const bool folded = p.s == 1 || p.dilation.w == 1;
  run_taps = folded ? p.s : 1;
  run_terms = run_taps * group_c;
  runs_of_row = folded ? 1 : p.s;
  width = (p.q() - 1) * p.stride.w + (p.s - 1) * p.dilation.w + 1;
  const int64_t row_elements = width * group_c;
  const int64_t row_bytes = p.t * row_elements * int64_t{sizeof(BFloat16)};
  const auto input_rows = [&](int64_t outputs) {
    return (outputs - 1) * p.stride.h + (p.r - 1) * p.dilation.h + 1;
  };
  // A convolution without a filter's extent has all pixels of an image for one row.
  const ImageSteps x = image_steps(p);
  const bool dense =
      x.c == 1 && (p.h == 1 || x.h == p.w * x.w) && (p.d == 1 || x.d == p.h * p.w * x.w);
  in_place = p.t * p.r * p.s == 1 && p.stride == Triple{1} && p.padding == Padding{} && dense &&
             group_c % tile_terms == 0 && p.d * p.h * p.w >= block_side;
  meets_zeros = p.padding != Padding{} || run_terms % tile_terms != 0;
  rows = 1;
  while (rows < p.p() && input_rows(rows + 1) * row_bytes <= slab_goal_bytes) ++rows;
  // Enough bands for the threads, as long as they do not read most rows twice.
  const int64_t images = p.n * p.z() * p.groups;
  const int64_t wanted = ceil_div(2 * threads, std::max<int64_t>(images, 1));
  rows = std::min(rows, std::max(ceil_div(p.p(), wanted), std::min<int64_t>(p.p(), 2 * p.r)));
  bands = ceil_div(p.p(), rows);
  rows = ceil_div(p.p(), bands);
  slab_rows = input_rows(rows);
  blocks = ceil_div(group_k, int64_t{block_side});
  parts =
      std::clamp<int64_t>(ceil_div(2 * threads, std::max<int64_t>(images * bands, 1)), 1, blocks);

  const double in_rows =
      static_cast<double>(p.q()) / static_cast<double>(round_up(p.q(), int64_t{tile_side}));
  const double in_one = static_cast<double>(p.q()) / static_cast<double>(width);
  flat = p.stride.h == 1 && p.stride.w == 1 && (in_place || rows == 1 || in_one >= in_rows);
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t r = 0; r < p.r; ++r)
      for (int64_t run = 0; run < runs_of_row; ++run)
        for (int64_t term = 0; term < run_terms; term += tile_terms)
          offsets.push_back((t * slab_rows + r * p.dilation.h) * row_elements +
                            run * p.dilation.w * group_c + term);
  // A tile reads behind the last position, and a step behind its terms.
  const int64_t behind = block_side * p.stride.w * group_c + tile_terms;
  if (!in_place)
    slab_bytes = padded((p.t * slab_rows * row_elements + behind) * int64_t{sizeof(BFloat16)});
  const double efficiency = flat && rows > 1 ? in_one : in_rows;
  products = static_cast<double>(p.n * p.z()) * static_cast<double>(p.p() * p.q()) / efficiency *
             static_cast<double>(steps() * tile_terms) *
             static_cast<double>(p.groups * round_up(group_k, int64_t{tile_side}));
}

}  // namespace plumb
