// Direct convolutions are cut here, and the work of each cut is estimated.
#include "cpu_kernels/direct/direct_cut.hpp"

#include <algorithm>

namespace plumb {
namespace {

using std::int64_t;

/// Returns the rows of a run, a multiple of `unit`: the number with the largest share of outputs
/// among its positions, and among equals the largest whose sums stay in a level-1 cache for a few
/// filters.
int64_t fullest_run(int64_t pitch, int64_t q, int64_t max_rows, int64_t unit) {
  constexpr int64_t max_positions = 768;
  const auto positions = [&](int64_t rows) {
    return round_up(positions_of(rows, pitch, q), max_lanes);
  };
  int64_t best = unit;
  for (int64_t rows = 2 * unit; rows <= max_rows && rows * pitch <= max_positions; rows += unit)
    if (rows * positions(best) >= best * positions(rows)) best = rows;
  return best;
}

/// Says whether a band's input lies in x as its planes would: x is a dense image without padding at
/// stride 1, and all of it is in one band unless a group has one channel. The stride itself is
/// checked, because a filter of one row has one row plane at every stride.
template <class Real>
bool lies_as_planes(const ConvProblem& p, const Cut& cut) {
  return size_in_bytes(p.dtype) == sizeof(Real) && p.padding == Padding{} &&
         step_of(p.stride.h, p.p()) == 1 && step_of(p.stride.w, p.q()) == 1 &&
         cut.planes.pitch == p.w && p.x_strides == dense_strides(p.x_extents()) &&
         (cut.bands == 1 || p.c == p.groups);
}

/// Returns the cut with a plane for each filter column (`own_columns`), or for each remainder by
/// the stride. Its bands have `rows` rows, unless that is 0.
template <class Real>
Cut cut(const ConvProblem& p, bool own_columns, int64_t rows = 0) {
  // A band's input stays in a level-2 cache, and all threads have bands.
  constexpr int64_t planes_bytes = 384 << 10, enough_bands = 64;
  const int64_t step_h = step_of(p.stride.h, p.p()), step_w = step_of(p.stride.w, p.q());
  const int64_t halo_h = (p.r - 1) * p.dilation.h / step_h;
  const int64_t halo_w = own_columns ? 0 : (p.s - 1) * p.dilation.w / step_w;
  Cut cut{};
  cut.planes.row_planes = std::min(step_h, (p.r - 1) * p.dilation.h + 1);
  cut.planes.column_planes = own_columns ? p.s : std::min(step_w, (p.s - 1) * p.dilation.w + 1);
  cut.planes.column_step = own_columns ? p.dilation.w : 1;
  cut.planes.pitch = p.q() + halo_w;
  const int64_t planes = p.c / p.groups * cut.planes.row_planes * cut.planes.column_planes;
  const int64_t row_bytes = planes * cut.planes.pitch * int64_t{sizeof(Real)};
  const int64_t in_cache = planes_bytes / std::max<int64_t>(row_bytes, 1) - halo_h;
  const int64_t images = std::max<int64_t>(p.n, 1) * p.groups;
  const int64_t computed = rows_computed(p), unit = rows_together(p);
  const int64_t in_parallel = ceil_div(computed, ceil_div(enough_bands, images));
  // A band has at least as many rows as its halo: below that it loads more rows than it computes.
  const int64_t max_rows = std::max<int64_t>({1, std::min(in_cache, in_parallel), halo_h});
  cut.bands = ceil_div(computed, std::min(max_rows, computed));
  cut.rows = rows > 0 ? rows : round_up(ceil_div(computed, cut.bands), unit);
  cut.bands = ceil_div(computed, cut.rows);
  cut.planes.rows = cut.rows + halo_h;
  cut.planes.plane = round_up(cut.planes.rows * cut.planes.pitch, 16);
  // The padding keeps planes from lying a power of two apart, where they would share one set of a
  // cache.
  if (cut.planes.plane % 256 == 0) cut.planes.plane += 16;
  cut.in_x = !own_columns && lies_as_planes<Real>(p, cut);
  if (cut.in_x) cut.planes.plane = p.x_strides[1];
  cut.run_rows = fullest_run(cut.planes.pitch, p.q(), cut.rows, unit);
  cut.positions = round_up(positions_of(cut.run_rows, cut.planes.pitch, p.q()), max_lanes);
  cut.rows_copied = cut.in_x ? 0
                             : static_cast<double>(cut.bands) * static_cast<double>(planes) *
                                   static_cast<double>(cut.planes.rows);
  cut.elements_copied = cut.rows_copied * static_cast<double>(cut.planes.pitch);
  cut.offsets_bytes = padded(p.terms() * int64_t{sizeof(int64_t)});
  cut.filters_bytes = padded(p.k * p.terms() * int64_t{sizeof(Real)});
  cut.bias_bytes = padded(p.k * int64_t{sizeof(Real)});
  // Whole vectors read beyond a run's last position, in the last plane too.
  cut.planes_bytes =
      padded((planes * cut.planes.plane + halo_w + 2 * max_lanes) * int64_t{sizeof(Real)});
  // Whole vectors of sums are stored, and read beyond the last sum.
  cut.sums_bytes = padded((max_run_filters * cut.positions + max_lanes) * int64_t{sizeof(Real)});
  return cut;
}

/// Returns the work of one cut.
double work(const ConvProblem& p, const Cut& cut) {
  constexpr double copy_of_a_row = 40;
  // Columns that are not neighbours lie in a cache line each, so copying an element takes longer.
  const double copy_of_an_element = p.x_strides[3] != 1 ? 120 : (p.stride.w == 1 ? 2.5 : 8);
  const int64_t rest = cut.rows % cut.run_rows;
  const int64_t positions =
      cut.rows / cut.run_rows * cut.positions +
      (rest > 0 ? round_up(positions_of(rest, cut.planes.pitch, p.q()), max_lanes) : 0);
  return static_cast<double>(cut.bands) * static_cast<double>(positions) *
             static_cast<double>(p.k / p.groups) * static_cast<double>(p.terms()) +
         copy_of_an_element * cut.elements_copied + copy_of_a_row * cut.rows_copied;
}

/// Returns the problem of the outputs behind the first `columns` ones, without padding.
ConvProblem behind(ConvProblem problem, int64_t columns) {
  problem.w -= columns;
  return problem;
}

}  // namespace

double work(const ConvProblem& p, const Cuts& cuts) {
  if (!cuts.rest) return work(p, cuts.first);
  return static_cast<double>(rows_computed(p) * cuts.columns) *
             static_cast<double>(p.k / p.groups) * static_cast<double>(p.terms()) +
         work(behind(p, cuts.columns), *cuts.rest);
}

template <class Real>
Cuts cuts(const ConvProblem& problem) {
  const std::int64_t q = problem.q();
  const Cuts own{cut<Real>(problem, true), {}, q}, shared{cut<Real>(problem, false), {}, q};
  const bool fits = own.bytes(1) <= workspace_limit_bytes;
  const Cuts& one = fits && work(problem, own) < work(problem, shared) ? own : shared;
  const std::int64_t columns = q / max_lanes * max_lanes;
  const bool can_part = shared.first.in_x && columns > 0 && columns < q &&
                        problem.pool == Pool::none && problem.y_strides[3] == 1;
  if (!can_part) return one;
  const Cuts parted{shared.first, cut<Real>(behind(problem, columns), true, shared.first.rows),
                    columns};
  return work(problem, parted) < work(problem, one) ? parted : one;
}

template Cuts cuts<float>(const ConvProblem&);
template Cuts cuts<double>(const ConvProblem&);

}  // namespace plumb
