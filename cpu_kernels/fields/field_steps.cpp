// Steps of a field's convolution: planes are loaded, blocks of taps placed, outputs summed.
#include "cpu_kernels/fields/field_steps.hpp"

#include <algorithm>
#include <cmath>

#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Real>
Real bias_of(const ConvLaunch& launch, int64_t filter) {
  return launch.bias ? element_of<Real>(launch.bias, filter, launch.problem.dtype) : Real{0};
}

}  // namespace

template <class Real>
FieldLaunch<Real>::FieldLaunch(const ConvLaunch& call, const FieldPlan& cut,
                               const FieldKernels<Real>& functions)
    : launch(call),
      problem(call.problem),
      plan(cut),
      kernels(functions),
      axes(field_axes(call.problem)),
      z(call.problem.z()),
      p(call.problem.p()),
      q(call.problem.q()),
      filters(static_cast<const Real*>(call.filters) + field_header_bytes / sizeof(Real)),
      finite(*static_cast<const Real*>(call.filters) == 0) {
  constexpr double kept = 16 << 20;
  const double y_bytes = static_cast<double>(problem.n * problem.k) * static_cast<double>(z * p) *
                         static_cast<double>(q) * static_cast<double>(size_in_bytes(problem.dtype));
  stream = y_bytes > kept && !call.accumulate;
}

template <class Real>
FieldSteps<Real>::FieldSteps(const FieldLaunch<Real>& shared, std::byte* slot) : shared_(shared) {
  const FieldPlan& plan = shared.plan;
  slab_ = reinterpret_cast<Real*>(slot) + plan.shift;
  // What no output needs is computed too, and is slow where it is subnormal.
  const auto reals = static_cast<int64_t>(plan.slab_bytes / sizeof(Real)) - plan.shift;
  const int64_t loaded = shared.problem.c / shared.problem.groups * plan.channel;
  std::fill_n(slab_ + loaded, reals - loaded, Real{0});
  outside_ = reinterpret_cast<int64_t*>(slot + plan.slab_bytes);
  offsets_ = reinterpret_cast<int64_t*>(slot + plan.slab_bytes + plan.outside_bytes);
  taps_ = reinterpret_cast<TapColumns*>(slot + plan.slab_bytes + plan.outside_bytes +
                                        plan.offsets_bytes);
  columns_ = reinterpret_cast<TapColumn*>(taps_ + shared.plan.tap_blocks());
  load_ = {};
  load_.dtype = shared.problem.dtype;
  load_.channels = shared.problem.c / shared.problem.groups;
  load_.x_channel = shared.axes.x_c, load_.x_step = shared.axes.x_w;
  load_.rows = plan.plane / plan.pitch, load_.row_offsets = offsets_;
  load_.outside = outside_;
  load_.slab_channel = plan.channel, load_.pitch = plan.pitch;
}

template <class Real>
void FieldSteps<Real>::run(int64_t first, int64_t end) {
  const int64_t planes = shared_.plan.planes, ring = planes + 1;
  Step step = step_of(first);
  // The step's planes begin at `place` of the ring, and so many of them are there.
  int64_t place = (last_place_ + 1) % ring, loaded = planes - 1;
  if (first != end_ || first == 0 || !step.same_band(step_of(first - 1))) {
    find_columns(step);
    loaded = 0;
  }
  for (int64_t index = first; index < end; ++index) {
    for (; loaded < planes; ++loaded) {
      begin_plane(step, loaded, (place + loaded) % ring, 1);
      end_plane();
    }
    place_taps(place);
    const bool more = index + 1 < end;
    const Step next = more ? step_of(index + 1) : step;
    const bool follows = next.same_band(step);
    if (more) {
      if (!follows) find_columns(next);
      begin_plane(next, follows ? planes - 1 : 0, (place + planes) % ring, tiles_of(step));
    }
    sum(step);
    if (more) end_plane();
    last_place_ = place;
    loaded = follows ? planes : 1;
    place = (place + (follows ? 1 : planes)) % ring;
    step = next;
  }
  end_ = end;
  if (shared_.stream) shared_.kernels.end_stores();
}

/// Steps go on along the depth, then down, then to the right.
template <class Real>
typename FieldSteps<Real>::Step FieldSteps<Real>::step_of(int64_t index) const {
  const FieldPlan& plan = shared_.plan;
  Step step{};
  step.z = index % shared_.z, index /= shared_.z;
  step.p = index % plan.bands * plan.rows, index /= plan.bands;
  step.q = index % plan.column_blocks * plan.columns, index /= plan.column_blocks;
  step.group = index % shared_.problem.groups, step.n = index / shared_.problem.groups;
  step.rows = std::min(plan.rows, shared_.p - step.p);
  step.columns = std::min(plan.columns, shared_.q - step.q);
  return step;
}

/// Finds what each row and column of the band's slab shows of a plane. Rows below the band are
/// zeros.
template <class Real>
void FieldSteps<Real>::find_columns(const Step& step) {
  const ConvProblem& problem = shared_.problem;
  const FieldAxes& axes = shared_.axes;
  const int64_t w = step.q - problem.padding.left, h = step.p - problem.padding.top;
  const int64_t rows = step.rows + (problem.r - 1) * problem.dilation.h;
  load_.columns = step.columns + (problem.s - 1) * problem.dilation.w;
  load_.begin = std::clamp<int64_t>(-w, 0, load_.columns);
  load_.end = std::clamp(problem.w - w, load_.begin, load_.columns);
  load_.first = (w + load_.begin) * axes.x_w;
  const auto offset = [](Boundary boundary, int64_t index, int64_t extent, int64_t x_step) {
    const int64_t shown = boundary_index(boundary, index, extent);
    return shown < 0 ? no_element : shown * x_step;
  };
  for (int64_t i = 0; i < load_.columns; ++i) {
    if (i == load_.begin) i = load_.end;
    if (i < load_.columns) outside_[i] = offset(problem.boundary.w, w + i, problem.w, axes.x_w);
  }
  load_.has_outside = problem.boundary.w != Boundary::zeros;
  for (int64_t i = 0; i < load_.rows; ++i)
    offsets_[i] = i < rows ? offset(problem.boundary.h, h + i, problem.h, axes.x_h) : no_element;
  load_.even_begin = std::clamp<int64_t>(-h, 0, rows);
  load_.even_end = std::clamp(problem.h - h, load_.even_begin, rows);
  load_.x_row = load_.even_end - load_.even_begin > 1 ? axes.x_h : 0;
  without_zeros_ = shared_.plan.planes + 1;
}

/// Writes the zeros beside what is loaded to the slab.
template <class Real>
void FieldSteps<Real>::write_zeros() {
  for (int64_t channel = 0; channel < load_.channels; ++channel)
    for (int64_t i = 0; i < load_.rows; ++i) {
      Real* const row = load_.slab + channel * load_.slab_channel + i * load_.pitch;
      const bool loads = load_.x && offsets_[i] != no_element;
      std::fill(row, row + (loads ? load_.begin : load_.pitch), Real{0});
      if (loads) std::fill(row + load_.end, row + load_.pitch, Real{0});
    }
}

/// Begins to load plane `plane` under the step's filter into a place of the ring, beside `tiles`.
template <class Real>
void FieldSteps<Real>::begin_plane(const Step& step, int64_t plane, int64_t place, int64_t tiles) {
  const ConvProblem& problem = shared_.problem;
  const FieldAxes& axes = shared_.axes;
  const int64_t d =
      boundary_index(problem.boundary.d, step.z + plane - problem.padding.front, problem.d);
  const int64_t channel = step.group * load_.channels;
  load_.x = d < 0
                ? nullptr
                : element_at(shared_.launch.x,
                             step.n * axes.x_n + channel * axes.x_c + d * axes.x_d, problem.dtype);
  load_.slab = slab_ + place * shared_.plan.plane;
  if (without_zeros_ > 0 || !load_.x) write_zeros();
  without_zeros_ = std::max<int64_t>(without_zeros_ - 1, 0);
  shared_.kernels.begin_load(load_, tiles, columns_, shared_.plan.tap_columns);
}

template <class Real>
void FieldSteps<Real>::end_plane() {
  shared_.kernels.end_load(load_);
}

/// Fills in where the columns of taps lie in the ring, the step's planes from `place` on.
template <class Real>
void FieldSteps<Real>::place_taps(int64_t place) {
  const FieldPlan& plan = shared_.plan;
  const Triple& dilation = shared_.problem.dilation;
  TapColumn* column = columns_;
  taps_count_ = 0;
  for (const FilterBlock& block : plan.blocks) {
    if (plan.ordered || taps_count_ == 0 || taps_[taps_count_ - 1].rows != block.rows)
      taps_[taps_count_++] = {
          .rows = block.rows, .columns = 0, .first = column, .w = block.w, .joined = block.joined};
    taps_[taps_count_ - 1].columns += block.columns;
    const int64_t plane = (place + block.t * dilation.d) % (plan.planes + 1);
    const int64_t first = block.c * plan.channel + plane * plan.plane +
                          block.r * dilation.h * plan.pitch + block.s * dilation.w;
    for (int64_t j = 0; j < block.columns; ++j) column++->x = first + j * dilation.w;
  }
}

/// Returns of how many tiles all filters' outputs of a step are made.
template <class Real>
int64_t FieldSteps<Real>::tiles_of(const Step& step) const {
  const FieldPlan& plan = shared_.plan;
  const int64_t vectors = ceil_div(step.columns, plan.lanes), rows = shared_.kernels.rows;
  const int64_t tiles =
      plan.along_row ? step.rows * ceil_div(vectors, rows) : ceil_div(step.rows, rows) * vectors;
  return tiles * (shared_.problem.k / shared_.problem.groups);
}

template <class Real>
void FieldSteps<Real>::sum(const Step& step) {
  const ConvProblem& problem = shared_.problem;
  const FieldPlan& plan = shared_.plan;
  const Boundaries& at = problem.boundary;
  const bool corrects =
      !shared_.finite && problem.padding != Padding{} &&
      (at.d == Boundary::zeros || at.h == Boundary::zeros || at.w == Boundary::zeros);
  step_ = step;
  for (int64_t k = 0; k < problem.k / problem.groups; ++k) {
    k_ = step.group * (problem.k / problem.groups) + k;
    const FieldRun<Real> run{
        .x = slab_,
        .x_row = plan.pitch,
        .row_step = problem.dilation.h,
        .taps = taps_,
        .taps_count = taps_count_,
        .w = shared_.filters + k_ * plan.filter_reals,
        .rows = step.rows,
        .columns = step.columns,
        .dtype = problem.dtype,
        .y = nullptr,
        .y_row = shared_.axes.y_p,
        .y_column = shared_.axes.y_q,
        .bias = plan.ordered ? Real{0} : bias_of<Real>(shared_.launch, k_),
        .ordered = plan.ordered,
        .last = bias_of<Real>(shared_.launch, k_) + Real{0},
        .accumulate = shared_.launch.accumulate,
        .relu = shared_.launch.activation == Activation::relu,
        .plain = size_in_bytes(problem.dtype) == sizeof(Real) && shared_.axes.y_q == 1 && !corrects,
        .stream = shared_.stream,
        .beside = &load_,
        .correct = corrects ? &FieldSteps::correct : nullptr,
        .context = this};
    sum_filter(step, k_, run);
  }
}

/// Runs one filter over the step, all rows at once or one by one as rows of a vector's length.
template <class Real>
void FieldSteps<Real>::sum_filter(const Step& step, int64_t k, FieldRun<Real> run) {
  const FieldAxes& axes = shared_.axes;
  const FieldPlan& plan = shared_.plan;
  const int64_t lanes = plan.lanes;
  const auto y_at = [&](int64_t row, int64_t column) {
    const int64_t at = step.n * axes.y_n + k * axes.y_k + step.z * axes.y_z +
                       (step.p + row) * axes.y_p + (step.q + column) * axes.y_q;
    return const_cast<char*>(element_at(shared_.launch.y, at, run.dtype));
  };
  row_ = column_ = 0;
  if (!plan.along_row) {
    run.y = y_at(0, 0);
    return shared_.kernels.sum(run);
  }
  run.row_step = shared_.problem.dilation.w;
  run.x_row = lanes, run.y_row = lanes * axes.y_q;
  for (row_ = 0; row_ < step.rows; ++row_) {
    run.x = slab_ + row_ * plan.pitch;
    run.y = y_at(row_, 0);
    run.rows = step.columns / lanes, run.columns = lanes;
    column_ = 0;
    shared_.kernels.sum(run);
    column_ = step.columns / lanes * lanes;
    if (column_ == step.columns) continue;
    run.x += column_;
    run.y = y_at(row_, column_);
    run.rows = 1, run.columns = step.columns - column_;
    shared_.kernels.sum(run);
  }
}

/// Computes the sums that are NaN once more, without the taps in the padding: there 0 * Inf made a
/// NaN, where the tap shall contribute nothing.
template <class Real>
void FieldSteps<Real>::correct(const void* context, int64_t row, int64_t rows, int64_t column,
                               int64_t count, Real* sums, int64_t step) {
  const auto& steps = *static_cast<const FieldSteps*>(context);
  const FieldPlan& plan = steps.shared_.plan;
  const Triple& dilation = steps.shared_.problem.dilation;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j) {
      Real& sum = sums[i * step + j];
      if (sum == sum) continue;
      const int64_t p = plan.along_row ? steps.row_ : row + i * dilation.h;
      const int64_t q =
          plan.along_row ? steps.column_ + (row + i * dilation.w) * plan.lanes + j : column + j;
      sum = steps.sum_inside(steps.step_.p + p, steps.step_.q + q) +
            (bias_of<Real>(steps.shared_.launch, steps.k_) + Real{0});
    }
}

/// Returns the sum of output (p, q) of the step and filter at hand, by the definition.
template <class Real>
Real FieldSteps<Real>::sum_inside(int64_t p, int64_t q) const {
  const ConvProblem& problem = shared_.problem;
  const FieldAxes& axes = shared_.axes;
  const FieldPlan& plan = shared_.plan;
  const Real* const w = shared_.filters + k_ * plan.filter_reals;
  const int64_t channel = step_.group * (problem.c / problem.groups);
  Real sum = 0;
  with_stored<Real>(problem.dtype, [&](auto stored) {
    const auto* const x =
        static_cast<const decltype(stored)*>(shared_.launch.x) + step_.n * axes.x_n;
    const auto add = [&](const FilterBlock& block, int64_t i, int64_t j) {
      const int64_t r = block.r + (plan.along_row ? 0 : i);
      const int64_t s = block.s + j + (plan.along_row ? i * plan.lanes : 0);
      const int64_t d =
          boundary_index(problem.boundary.d,
                         step_.z + block.t * problem.dilation.d - problem.padding.front, problem.d);
      const int64_t h = boundary_index(problem.boundary.h,
                                       p + r * problem.dilation.h - problem.padding.top, problem.h);
      const int64_t column = boundary_index(
          problem.boundary.w, q + s * problem.dilation.w - problem.padding.left, problem.w);
      if (d < 0 || h < 0 || column < 0) return;
      const int64_t at =
          (channel + block.c) * axes.x_c + d * axes.x_d + h * axes.x_h + column * axes.x_w;
      sum = std::fma(static_cast<Real>(widen(x[at])), w[block.w + j * block.rows + i], sum);
    };
    // By columns as the tiles do, or in the specified order.
    for (const FilterBlock& block : plan.blocks) {
      for (int64_t j = 0; !plan.ordered && j < block.columns; ++j)
        for (int64_t i = 0; i < block.rows; ++i) add(block, i, j);
      if (!plan.ordered || (&block != plan.blocks.data() && (&block)[-1].joined)) continue;
      for (int64_t i = 0; i < block.rows; ++i) {
        for (int64_t j = 0; j < block.columns; ++j) add(block, i, j);
        if (!block.joined || i >= (&block)[1].rows) continue;
        for (int64_t j = 0; j < (&block)[1].columns; ++j) add((&block)[1], i, j);
      }
    }
  });
  return sum;
}

template struct FieldLaunch<float>;
template struct FieldLaunch<double>;
template class FieldSteps<float>;
template class FieldSteps<double>;

}  // namespace plumb
