// How a problem is cut into parts of the filter, tiles and blocks, and what that takes.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/fields/field_cut.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/toeplitz/toeplitz.hpp"
#include "plumb/conv.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr int shared_of_block = 227 << 10, shared_of_unit = 228 << 10, reserved = 1 << 10;
constexpr int max_part_rows = 48, max_part_columns = 64, max_part_line = 1024;

/// Rows are the axis that has taps beside the width.
FieldView view_of(const FieldProblem& problem) {
  FieldView view = field_axes(problem);
  if (view.v.taps == 1 && view.u.taps > 1) std::swap(view.u, view.v);
  return view;
}

ToeplitzFilters parts_of(const FieldView& view, ToeplitzMode mode, int row_parts,
                         int column_parts) {
  ToeplitzFilters to{.mode = mode,
                     .row_parts = row_parts,
                     .column_parts = column_parts,
                     .rows = static_cast<int>(ceil_div(view.v.taps, row_parts)),
                     .columns = static_cast<int>(ceil_div(view.w.taps, column_parts)),
                     .planes = view.c * view.u.taps};
  if (to.mode == ToeplitzMode::line) {
    to.chunks = 2 * static_cast<int>(ceil_div(to.columns + 63, 16));
    return to;
  }
  const bool planes = to.mode == ToeplitzMode::planes;
  to.chunks = static_cast<int>(ceil_div(to.columns + 7, 8));
  to.pairs = static_cast<int>(ceil_div((planes ? view.u.taps : to.rows) + 7, 2));
  if (planes) to.planes = view.c * to.pairs;
  return to;
}

/// Returns the share of tiles at a border of the image, whose lines are looked up one by one.
double share_at_border(const FieldView& view, ToeplitzMode mode) {
  const bool line = mode == ToeplitzMode::line, planes = mode == ToeplitzMode::planes;
  const auto inside = [](std::int64_t outputs, std::int64_t tile) {
    const double tiles = static_cast<double>(ceil_div(outputs, tile));
    return std::max(0.0, tiles - 2) / tiles;
  };
  double all = inside(view.w.outputs, line ? 512 * toeplitz_groups : 64);
  if (!line) all *= inside(view.v.outputs, planes ? toeplitz_plane_rows : 8 * toeplitz_groups);
  if (planes && view.u.boundary == Boundary::zeros) all *= inside(view.u.outputs, 8);
  return 1 - all;
}

/// Predicts the time: producers, tensor cores and memory work beside each other.
double seconds_of(const ToeplitzPlan& plan, const Machine& machine) {
  const ToeplitzFilters& filters = plan.filters;
  const ToeplitzTiles& tiles = plan.tiles;
  const bool line = filters.mode == ToeplitzMode::line,
             planes = filters.mode == ToeplitzMode::planes;
  // Clocks of a multiprocessor, from runs on an H100 (docs/kernels/toeplitz.md), of planes on an
  // H200 (docs/experiments/toeplitz.md).
  constexpr double product_clocks = 64 / 0.9, pass_clocks = 1000, filter_bytes_in_clock = 24;
  const int consumers = planes ? toeplitz_consumers : 1;  // of a tile
  const double outputs = 64 * 8 * toeplitz_groups * consumers;
  const bool aligned = plan.view.v.x_step % 4 == 0;
  const double element_clocks = line     ? 0.75
                                : planes ? (tiles.products == 3 ? 1.15 : 0.78) * (aligned ? 1 : 1.3)
                                         : (tiles.products == 3 ? 0.72 : 0.6) * (aligned ? 1 : 1.5);
  // What other boundaries than zeros have beside a row is loaded element by element.
  const double at_border = line || plan.view.w.boundary == Boundary::zeros ? 0.4 : 0.8;
  const double passes = filters.passes(), elements = tiles.lines * tiles.line;
  double products = passes * filters.steps() * tiles.products * product_clocks * consumers;
  // With one stage of filters products wait for each.
  if (!tiles.keeps_filters && tiles.filter_stages == 1)
    products += passes * static_cast<double>(plan.filter_stage_bytes()) / filter_bytes_in_clock;
  const double border = 1 + at_border * share_at_border(plan.view, filters.mode);
  const double loaded = passes * (border * elements * element_clocks + pass_clocks);
  const double bytes_in_clock = machine.bytes_per_second / (machine.clock_hertz * machine.units);
  // Each channel is read once from memory; halos and further passes come from L2.
  const double moved =
      bytes_in_clock > 0 ? 1.1 * (1 + plan.view.c) * outputs * 4 / bytes_in_clock : 0;
  const double longest = std::max({products, loaded, moved}),
               rest = products + loaded + moved - longest;
  // With two stages, products wait for what is loaded behind them.
  const double tile = longest + (tiles.stages > 2 ? 0.1 : 0.45) * rest;
  const double count = static_cast<double>(plan.tile_count()) * plan.view.k / machine.units;
  return (count < 4 ? std::ceil(count) : count + 0.5) * tile / machine.clock_hertz;
}

/// Completes the tiles for the parts of the filter; says whether they fit shared memory.
bool cut_tiles(ToeplitzPlan& plan, const Machine& machine) {
  const ToeplitzFilters& filters = plan.filters;
  const bool line = filters.mode == ToeplitzMode::line,
             planes = filters.mode == ToeplitzMode::planes;
  ToeplitzTiles& tiles = plan.tiles;
  tiles.lines = line     ? toeplitz_groups
                : planes ? 2 * (toeplitz_plane_rows + filters.rows - 1)
                         : 8 * (toeplitz_groups - 1) + 2 * filters.pairs;
  tiles.line = line ? 64 * (8 + (filters.chunks - 1) / 8) : 8 * (7 + filters.chunks);
  if (planes && tiles.lines * tiles.line > 8 * toeplitz_held * toeplitz_loaders) return false;
  const auto fits = [&](int filter_stages, bool keeps_filters, int least_stages) {
    tiles.filter_stages = filter_stages, tiles.keeps_filters = keeps_filters;
    for (tiles.stages = toeplitz_max_stages; tiles.stages >= least_stages; --tiles.stages)
      if (plan.shared_bytes() <= shared_of_block) return true;
    return false;
  };
  const bool one_pass = filters.passes() == 1;
  // In planes the windows of passes overlap, and a whole filter takes little more than two of them.
  if (!(planes && plan.matrix_bytes() <= shared_of_block && fits(1, true, 3)) &&
      !(!one_pass && fits(2, false, 2)) && !fits(1, one_pass, 2))
    return false;
  tiles.seconds = seconds_of(plan, machine);
  return true;
}

/// Whether the kernel may take planes for a filter: it has taps along all axes.
bool has_planes(const FieldView& view) { return view.u.taps > 1 && view.v.taps > 1; }

/// Goes through the parts of the filter, and keeps the fastest plan.
void plan_parts(ToeplitzPlan plan, ToeplitzMode mode, const Machine& machine,
                std::optional<ToeplitzPlan>& best) {
  constexpr int max_parts = 1024;
  for (int row_parts = 1; row_parts <= std::min(max_parts, plan.view.v.taps); ++row_parts) {
    const std::int64_t part_rows = ceil_div(plan.view.v.taps, row_parts);
    if (part_rows > max_part_rows) continue;
    if (part_rows < 8 && row_parts > 1) break;  // parts are for filters that do not fit
    for (int column_parts = 1; column_parts <= std::min(max_parts, plan.view.w.taps);
         ++column_parts) {
      const std::int64_t part_columns = ceil_div(plan.view.w.taps, column_parts);
      if (part_columns > (mode == ToeplitzMode::line ? max_part_line : max_part_columns)) continue;
      if (part_columns < 16 && column_parts > 1) break;
      plan.filters = parts_of(plan.view, mode, row_parts, column_parts);
      if (cut_tiles(plan, machine) && (!best || plan.tiles.seconds < best->tiles.seconds))
        best = plan;
    }
  }
}

}  // namespace

int ToeplitzPlan::shared_bytes() const {
  return tiles.filter_stages * static_cast<int>(filter_stage_bytes()) +
         tiles.stages * (tiles.tile_bytes() + toeplitz_table_bytes) + toeplitz_control_bytes;
}

std::int64_t ToeplitzPlan::tile_count() const {
  if (filters.mode == ToeplitzMode::planes)
    return view.n * ceil_div(view.u.outputs, 8) * ceil_div(view.v.outputs, toeplitz_plane_rows) *
           ceil_div(view.w.outputs, 64);
  if (filters.mode == ToeplitzMode::rows)
    return view.n * view.u.outputs * ceil_div(view.v.outputs, 8 * toeplitz_groups) *
           ceil_div(view.w.outputs, 64);
  return ceil_div(view.n * view.u.outputs * view.v.outputs * ceil_div(view.w.outputs, 512),
                  toeplitz_groups);
}

std::size_t ToeplitzPlan::packed_bytes() const {
  const std::int64_t terms = std::int64_t{view.c} * view.u.taps * view.v.taps * view.w.taps;
  return static_cast<std::size_t>(dense_at() + view.k * terms * 4);
}

Support supports_toeplitz(const ConvProblem& problem, const DeviceInfo& device) {
#ifdef PLUMB_CUDA_SM90A
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
  if (!compiled || device.compute_major != 9)
    return {Reason::device_limit, "no wgmma; expected a device and a build of sm_90a"};
  if (Support fields = supports_fields(problem, DType::f32, {.channels = 16, .filters = 64});
      !fields)
    return fields;
  constexpr double most = 0x7fff0000;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double rows = number(problem.n) * number(problem.z()) * number(problem.p());
  const double taps = number(problem.c) * number(problem.t) * number(problem.r) * number(problem.s);
  for (const double count : {rows * std::ceil(number(problem.q()) / 64), 64 * taps})
    if (count >= most)
      return {Reason::too_large, std::to_string(static_cast<std::int64_t>(std::min(count, 1e18))) +
                                     " tiles or terms; expected below 2^31"};
  return {};
}

std::optional<ToeplitzPlan> plan_toeplitz(const FieldProblem& problem, const DeviceInfo& device,
                                          int products, std::optional<ToeplitzMode> only) {
  const Machine machine(device);
  ToeplitzPlan plan{.view = view_of(problem), .filters = {}, .tiles = {.products = products}};
  // The layout of the filters is chosen for a large batch, since it serves any.
  const std::int64_t images = std::exchange(plan.view.n, large_batch);
  std::optional<ToeplitzPlan> best;
  if (only != ToeplitzMode::planes)
    plan_parts(plan, plan.view.v.taps > 1 ? ToeplitzMode::rows : ToeplitzMode::line, machine, best);
  if (has_planes(plan.view) && only.value_or(ToeplitzMode::planes) == ToeplitzMode::planes) {
    plan_parts(plan, ToeplitzMode::planes, machine, best);
    std::swap(plan.view.u, plan.view.v);
    plan_parts(plan, ToeplitzMode::planes, machine, best);
  }
  if (!best) return best;
  best->view.n = images;
  cut_tiles(*best, machine);
  return best;
}

}  // namespace plumb::cuda
