// The blocks of taps and the bands of outputs get their sizes here.
#include "cpu_kernels/fields/field_plan.hpp"

#include <algorithm>

namespace plumb {
namespace {

using std::int64_t;

/// Adds blocks of at most `max_rows` rows each, of sizes as equal as can be. With a `step` their
/// rows lie so far apart along s, otherwise along r.
void add_blocks(FieldPlan& plan, FilterBlock all, int64_t step, int64_t max_rows) {
  const int64_t rows = all.rows, parts = ceil_div(rows, max_rows);
  for (int64_t part = 0; part < parts && all.columns > 0; ++part) {
    const int64_t first = rows * part / parts;
    FilterBlock block = all;
    (step > 0 ? block.s : block.r) += first * std::max<int64_t>(step, 1);
    block.rows = rows * (part + 1) / parts - first;
    plan.blocks.push_back(block);
  }
}

/// Adds the blocks of a filter of one row, which is cut into rows of a vector's length. The last
/// row may be shorter: columns beyond it are a block of their own, joined with that of the others.
void add_ordered_rows(FieldPlan& plan, FilterBlock all, int64_t taps, int64_t max_rows) {
  const int64_t rows = ceil_div(taps, plan.lanes), parts = ceil_div(rows, max_rows);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = rows * part / parts, end = rows * (part + 1) / parts;
    FilterBlock block = all;
    block.s = first * plan.lanes;
    block.rows = end - first;
    block.columns = end < rows ? plan.lanes : std::min(plan.lanes, taps - (rows - 1) * plan.lanes);
    const int64_t beyond = rows == 1 ? 0 : plan.lanes - block.columns;
    block.joined = beyond > 0 && block.rows > 1;
    plan.blocks.push_back(block);
    if (!block.joined) continue;
    block.s += block.columns;
    block.columns = beyond;
    --block.rows;
    block.joined = false;
    plan.blocks.push_back(block);
  }
}

/// Cuts the filter. A row of more taps than a vector has lanes, where there is one row, becomes
/// rows of that length, the first few columns of which have one tap more.
void cut_filter(FieldPlan& plan, const ConvProblem& p, int64_t max_rows) {
  for (int64_t c = 0; c < p.c / p.groups; ++c)
    for (int64_t t = 0; t < p.t; ++t) {
      FilterBlock all{.c = c, .t = t, .r = 0, .s = 0, .rows = p.r, .columns = p.s, .w = 0};
      if (plan.ordered && plan.along_row) {
        add_ordered_rows(plan, all, p.s, max_rows);
        continue;
      }
      if (!plan.along_row) {
        add_blocks(plan, all, 0, max_rows);
        continue;
      }
      const int64_t rows = p.s / plan.lanes, rest = p.s % plan.lanes;
      all.rows = rows + 1, all.columns = rest;
      add_blocks(plan, all, plan.lanes, max_rows);
      all.rows = rows, all.s = rest, all.columns = plan.lanes - rest;
      add_blocks(plan, all, plan.lanes, max_rows);
    }
  if (!plan.ordered)
    std::stable_sort(plan.blocks.begin(), plan.blocks.end(),
                     [](const FilterBlock& a, const FilterBlock& b) { return a.rows > b.rows; });
  for (FilterBlock& block : plan.blocks) {
    block.w = plan.filter_reals;
    plan.filter_reals += block.rows * block.columns;
    plan.tap_columns += block.columns;
  }
}

/// Returns the rows of a band, of `columns` columns, whose input takes at most `bytes`.
int64_t rows_within(int64_t bytes, int64_t row_bytes, int64_t halo) {
  return bytes / row_bytes - halo;
}

}  // namespace

FieldAxes field_axes(const ConvProblem& p) {
  const Strides &x = p.x_strides, &w = p.w_strides, &y = p.y_strides;
  if (!p.has_depth())
    return {x[0], x[1], 0, x[2], x[3], w[0], w[1], 0, w[2], w[3], y[0], y[1], 0, y[2], y[3]};
  return {x[0], x[1], x[2], x[3], x[4], w[0], w[1], w[2], w[3], w[4], y[0], y[1], y[2], y[3], y[4]};
}

template <class Real>
FieldPlan plan_field(const ConvProblem& p, const FieldKernels<Real>& kernels, bool ordered) {
  // A slab leaves room in a level-2 cache for what is prefetched.
  constexpr int64_t slab_limit = 896 << 10, max_columns = 4096, enough_bands = 16;
  FieldPlan plan{};
  plan.lanes = kernels.lanes;
  plan.ordered = ordered;
  plan.along_row = p.r == 1 && (p.s > plan.lanes || p.p() < kernels.rows / 2);
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const int64_t halo_h = (p.r - 1) * p.dilation.h, halo_w = (p.s - 1) * p.dilation.w;
  plan.planes = (p.t - 1) * p.dilation.d + 1;
  // A double cannot overflow.
  const double least = number(p.c / p.groups) * number(plan.planes + 1) * number(halo_h + 1) *
                       number(halo_w + plan.lanes) * sizeof(Real);
  const double filters = number(p.k) * number(p.terms()) * sizeof(Real);
  const double garbage = number(kernels.rows) * number(std::max(p.dilation.h, p.dilation.w)) *
                         number(halo_w + plan.lanes) * sizeof(Real);
  if (least + filters + garbage > workspace_limit_bytes / 2) return plan;
  cut_filter(plan, p, kernels.tap_rows);

  const int64_t images = std::max<int64_t>(p.n, 1) * p.groups, rows = p.p();
  const int64_t tile = kernels.rows, channels = p.c / p.groups;
  const auto pitch_of = [&](int64_t columns) {
    const int64_t pitch = round_up(columns + halo_w, plan.lanes) + plan.lanes;
    // Rows a power of two apart would share a few sets of a cache.
    return pitch * int64_t{sizeof(Real)} % 1024 == 0 ? pitch + plan.lanes : pitch;
  };
  const auto row_bytes = [&](int64_t columns) {
    return channels * (plan.planes + 1) * pitch_of(columns) * int64_t{sizeof(Real)};
  };
  const int64_t wanted = std::min(rows, std::max(tile, 16 * halo_h));
  plan.columns = std::min(p.q(), plan.along_row ? 2 * max_columns : max_columns);
  while (plan.columns > std::max<int64_t>(512, 8 * halo_w) &&
         rows_within(slab_limit, row_bytes(plan.columns), halo_h) < wanted)
    plan.columns = round_up(ceil_div(plan.columns, 2), plan.lanes);
  plan.column_blocks = ceil_div(p.q(), plan.columns);
  int64_t band = std::max(tile, rows_within(slab_limit, row_bytes(plan.columns), halo_h));
  // Planes are steps of their own for the threads; where there are none, bands are.
  if (plan.planes == 1) {
    const int64_t steps = images * plan.column_blocks * p.z();
    band = std::min(band, std::max(ceil_div(rows, ceil_div(enough_bands, steps)), halo_h));
  }
  const int64_t unit = plan.along_row ? 1 : tile;
  plan.bands = ceil_div(rows, std::max(unit, band / unit * unit));
  plan.rows = std::min(rows, round_up(ceil_div(rows, plan.bands), unit));
  plan.bands = ceil_div(rows, plan.rows);

  plan.shift = round_up(p.padding.left, plan.lanes) - p.padding.left;
  plan.pitch = pitch_of(plan.columns);
  plan.plane = (plan.rows + halo_h) * plan.pitch;
  plan.channel = (plan.planes + 1) * plan.plane;
  // A tile that is not full reads rows that are not there.
  const int64_t beyond =
      plan.along_row ? tile / 2 * p.dilation.w * plan.lanes : tile / 2 * p.dilation.h * plan.pitch;
  plan.slab_bytes =
      padded((plan.shift + channels * plan.channel + beyond + plan.pitch) * int64_t{sizeof(Real)});
  plan.outside_bytes = padded((plan.columns + halo_w) * int64_t{sizeof(int64_t)});
  plan.offsets_bytes = padded((plan.rows + halo_h) * int64_t{sizeof(int64_t)});
  plan.taps_bytes = padded(plan.tap_blocks() * int64_t{sizeof(TapColumns)} +
                           plan.tap_columns * int64_t{sizeof(TapColumn)});
  constexpr double rounding = 2 * field_header_bytes + 256;
  if (static_cast<double>(plan.slot_bytes()) + filters + rounding > workspace_limit_bytes)
    plan.blocks.clear();
  return plan;
}

template <class Real>
double field_work(const ConvProblem& p, const FieldKernels<Real>& kernels, const FieldPlan& plan) {
  // Products of an element that is copied; of a row; and of finishing an output.
  constexpr double copy_of_a_row = 200, finish = 5;
  const double copy_of_an_element = field_axes(p).x_w == 1 ? 10 : 120;
  const int64_t half = kernels.rows / 2;
  const auto rows_of = [&](int64_t rows, int64_t step) {
    return round_up(ceil_div(rows, step), half) * step;
  };
  const int64_t columns = round_up(p.q(), plan.lanes);
  const int64_t positions = plan.along_row
                                ? p.p() * rows_of(columns / plan.lanes, p.dilation.w) * plan.lanes
                                : rows_of(p.p(), p.dilation.h) * columns;
  // An unaligned load takes two turns of a port where it straddles two lines.
  const double loads = 1 + static_cast<double>(plan.lanes * int64_t{sizeof(Real)}) / 64;
  double taps = 0;
  for (const FilterBlock& block : plan.blocks) {
    const auto rows = static_cast<double>(block.rows), tile = static_cast<double>(kernels.rows);
    const double products = tile * rows, turns = (tile + rows - 1) * loads + rows;
    taps += static_cast<double>(block.columns) * std::max(products, turns) / tile;
  }
  const int64_t halo_h = (p.r - 1) * p.dilation.h, halo_w = (p.s - 1) * p.dilation.w;
  const double rows = static_cast<double>(p.c / p.groups) *
                      static_cast<double>(p.z() + plan.planes - 1) *
                      static_cast<double>(plan.bands * (plan.rows + halo_h) * plan.column_blocks);
  return static_cast<double>(p.z()) * static_cast<double>(positions) *
             static_cast<double>(p.k / p.groups) * (taps + finish) +
         rows * (copy_of_a_row + copy_of_an_element * static_cast<double>(plan.columns + halo_w));
}

template FieldPlan plan_field(const ConvProblem&, const FieldKernels<float>&, bool);
template FieldPlan plan_field(const ConvProblem&, const FieldKernels<double>&, bool);
template double field_work(const ConvProblem&, const FieldKernels<float>&, const FieldPlan&);
template double field_work(const ConvProblem&, const FieldKernels<double>&, const FieldPlan&);

}  // namespace plumb
