// Bands of outputs with vectors over filters: runs of filters are summed and stored.
#include "cpu_kernels/channels/channels_band.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {

using std::int64_t;

template <class Real>
ChannelsLaunch<Real>::ChannelsLaunch(const ConvLaunch& call, const ChannelsPlan& cut,
                                     const ChannelsKernels<Real>& functions)
    : launch(call),
      problem(call.problem),
      plan(cut),
      kernels(functions),
      filters(static_cast<const Real*>(call.filters) + cut.flags()) {
  const auto* const flags = static_cast<const Real*>(call.filters);
  // Zeros that are not left out are in the slab.
  const auto copies_zeros = [](const TapAxis& axis, int64_t after, Boundary boundary) {
    return !axis.skips && axis.before + after > 0 && boundary == Boundary::zeros;
  };
  const Padding& padding = problem.padding;
  const bool zeros = copies_zeros(cut.d, padding.back, problem.boundary.d) ||
                     copies_zeros(cut.h, padding.bottom, problem.boundary.h) ||
                     copies_zeros(cut.w, padding.right, problem.boundary.w);
  corrects = zeros && !std::all_of(flags, flags + cut.sets * cut.runs_of_set(),
                                   [](Real flag) { return flag == 0; });
  in_y = size_in_bytes(problem.dtype) == sizeof(Real) && cut.axes.y_k == 1 && !call.accumulate;
  tile_by_tile = in_y && cut.in_place && cut.taps == 1 && cut.blocks == 1 && !cut.streams_filters;
}

template <class Real>
ChannelsBand<Real>::ChannelsBand(const ChannelsLaunch<Real>& shared, std::byte* slot)
    : shared_(shared) {
  const ChannelsPlan& plan = shared.plan;
  slab_ = reinterpret_cast<Real*>(slot);
  staged_ = reinterpret_cast<Real*>(slot + plan.slab_bytes);
  bias_ = reinterpret_cast<Real*>(slot + plan.slab_bytes + plan.staged_bytes);
  sums_ = reinterpret_cast<Real*>(slot + plan.slab_bytes + plan.staged_bytes + plan.bias_bytes);
  // Lanes without a filter are computed too, and are slow where they are subnormal.
  std::fill_n(slab_, plan.slab_bytes / sizeof(Real), Real{0});
  std::fill_n(staged_, plan.staged_bytes / sizeof(Real), Real{0});
  taps_.resize(static_cast<std::size_t>(plan.taps));
  const auto planes = static_cast<std::size_t>(plan.d.taps);
  held_.assign(planes, no_plane), slots_.resize(planes), loads_.resize(planes);
}

/// Returns where taps of the task at hand have their input, from that of the first output's first
/// tap on, and their filters; and of a row of outputs, if there is one, whether its first and its
/// last have a tap in copied zeros.
template <class Real>
const ChannelsTap* ChannelsBand<Real>::taps_of(TapRange t, TapRange r, TapRange s,
                                               TapRange outputs) {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  if (t == taps_t_ && r == taps_r_ && s == taps_s_ && outputs == taps_outputs_) return taps_.data();
  taps_t_ = t, taps_r_ = r, taps_s_ = s, taps_outputs_ = outputs;
  TapRange first = s, last = s;
  if (plan.zero_columns && outputs.count() > 0)
    first = plan.w.inside(outputs.begin), last = plan.w.inside(outputs.end - 1);
  const auto zero = [](TapRange inside, int64_t tap) {
    return tap < inside.begin || tap >= inside.end ? 1u : 0u;
  };
  const int64_t x_r = plan.in_place ? plan.h.dilation * a.x_h : plan.h.slab_dilation() * plan.row;
  const int64_t x_s = plan.in_place ? plan.w.dilation * a.x_w : plan.w.slab_dilation() * plan.pitch;
  ChannelsTap* to = taps_.data();
  for (int64_t i = t.begin; i < t.end; ++i) {
    const int64_t x_t = plan.in_place ? i * plan.d.dilation * a.x_d : slots_[i] * plan.plane;
    for (int64_t j = r.begin; j < r.end; ++j)
      for (int64_t l = s.begin; l < s.end; ++l)
        *to++ = {.x = x_t + j * x_r + l * x_s,
                 .w = (i * plan.h.taps + j) * plan.w.taps + l,
                 .zeros = zero(first, l) | 2 * zero(last, l)};
  }
  return taps_.data();
}

/// Tasks go on through a band's chunks, so that one slab serves them, then through its planes, of
/// which neighbours share most of what is loaded, then through the bands.
template <class Real>
typename ChannelsBand<Real>::Task ChannelsBand<Real>::task_of(int64_t index) const {
  const ChannelsPlan& plan = shared_.plan;
  Task task{};
  task.k = index % plan.chunks * plan.chunk, index /= plan.chunks;
  task.z = index % plan.axes.z, index /= plan.axes.z;
  task.set = index % plan.sets, index /= plan.sets;
  task.q = index % plan.column_bands * plan.columns, index /= plan.column_bands;
  task.p = index % plan.bands * plan.rows, index /= plan.bands;
  task.n = index;
  task.rows = std::min(plan.rows, plan.axes.p - task.p);
  task.columns = std::min(plan.columns, plan.axes.q - task.q);
  task.filters = std::min(plan.chunk, plan.set_filters - task.k);
  return task;
}

template <class Real>
void ChannelsBand<Real>::run(int64_t index) {
  const ChannelsPlan& plan = shared_.plan;
  const Task task = task_of(index);
  place(task);
  for (int64_t c = 0; c < plan.group_c; c += plan.block) {
    const int64_t channels = std::min(plan.block, plan.group_c - c);
    if (!plan.in_place) {
      load_slab(task, c, channels);
      loaded_ = task, is_loaded_ = true;
    }
    // All runs of a tile are one call by lane, where their inputs are neighbours, and of one tap,
    // where y and not x is what has to be fetched.
    const int64_t step = plan.by_lane || shared_.tile_by_tile ? task.filters : plan.run;
    for (int64_t k = task.k; k < task.k + task.filters; k += step)
      sum_run(task, k, std::min(step, task.k + task.filters - k), c, channels);
  }
}

/// Adds channels [c, c + channels) to the sums of the run of filters from `k` on, and after the
/// last channel stores them.
template <class Real>
void ChannelsBand<Real>::sum_run(const Task& task, int64_t k, int64_t filters, int64_t c,
                                 int64_t channels) {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  const ConvLaunch& launch = shared_.launch;
  // The last run of a set may have fewer vectors than the others.
  const int64_t left = round_up(std::min(plan.run, plan.set_filters - k), plan.lanes);
  const int64_t width = filters > plan.run ? plan.run : left;
  const bool last = c + channels == plan.group_c;
  const int64_t of_all = task.set * plan.set_filters + k;
  Real* sums = sums_ + (plan.blocks > 1 ? k - task.k : 0);
  int64_t row = task.columns * plan.sums_step, step = plan.sums_step;
  if (shared_.in_y) {
    sums = static_cast<Real*>(launch.y) + task.n * a.y_n + of_all + task.z * a.y_z +
           task.p * a.y_p + task.q * a.y_q;
    row = a.y_p, step = a.y_q;
  }
  if (last && launch.bias)
    with_stored<Real>(shared_.problem.dtype, [&](auto stored) {
      plumb::load_row(static_cast<const decltype(stored)*>(launch.bias) + of_all, 1, filters,
                      bias_);
    });
  // As many tiles as memory takes to answer, some 2000 products of vectors.
  const int64_t of_tile =
      plan.taps * shared_.kernels.positions * round_up(filters, plan.lanes) / plan.lanes;
  const int64_t tiles_ahead = std::clamp<int64_t>(ceil_div(2000, of_tile), 1, 8);
  ChannelsRun<Real> run{.x = slab_ - slab_rows_.begin * plan.row - slab_columns_.begin * plan.pitch,
                        .x_row = plan.h.slab_stride() * plan.row,
                        .x_step = plan.w.slab_stride() * plan.pitch,
                        .x_channel = plan.in_place ? a.x_c
                                     : plan.expand ? plan.chunk
                                     : plan.turn   ? plan.groups
                                                   : 1,
                        .x_vector = plan.turn ? plan.groups * plan.block : plan.groups,
                        .first_channel = c,
                        .channels = channels,
                        .taps = nullptr,
                        .taps_count = 0,
                        .w = shared_.filters + (task.set * plan.set_lanes() + k) * plan.terms(),
                        .w_taps = plan.taps,
                        .w_channels = plan.group_c,
                        .vectors = width / plan.lanes,
                        .groups = plan.groups,
                        .from_memory = plan.in_place && k == task.k,
                        .tiles_ahead = tiles_ahead,
                        .ahead = nullptr,
                        .ahead_end = nullptr,
                        .ahead_lines = 0,
                        .sums = sums,
                        .sums_row = row,
                        .sums_step = step,
                        .filters = filters,
                        .rows = task.rows,
                        .count = task.columns,
                        .first = c == 0,
                        .bias = last && launch.bias ? bias_ : nullptr,
                        .relu = last && launch.activation == Activation::relu && !launch.accumulate,
                        .plus_zero = last && launch.reproducible};
  if (plan.in_place) {
    run.x = static_cast<const Real*>(launch.x) + task.n * a.x_n +
            (task.set * plan.group_c + c) * a.x_c + plan.d.first(task.z) * a.x_d +
            plan.h.first(task.p) * a.x_h + task.q * a.q_step - plan.w.before * a.x_w;
    run.x_row = plan.h.stride * a.x_h, run.x_step = a.q_step;
  }
  if (plan.by_lane && plan.in_place) run.x += k / plan.lanes * run.x_vector;
  if (plan.streams_filters) prefetch_filters(task, k, c, run);
  sum_classes(task, run);
  if (!last) return;
  if (shared_.corrects) correct(task, k, filters, sums, row, step);
  if (!shared_.in_y) store(task, k, filters, sums);
}

/// Has a run fetch the filters that the next one reads, a share with each tile.
template <class Real>
void ChannelsBand<Real>::prefetch_filters(const Task& task, int64_t k, int64_t c,
                                          ChannelsRun<Real>& run) const {
  const ChannelsPlan& plan = shared_.plan;
  int64_t set = task.set;
  k += plan.run;
  if (k >= task.k + task.filters) {
    k = task.k, c += plan.block;
    if (c >= plan.group_c) {  // the next task, in the order of task_of()
      c = 0, k += plan.chunk;
      if (k >= plan.set_filters) k = 0;
      if (k == 0 && task.z == plan.axes.z - 1) set = (set + 1) % plan.sets;
    }
  }
  const int64_t width = round_up(std::min(plan.run, plan.set_filters - k), plan.lanes);
  const int64_t channels = std::min(plan.block, plan.group_c - c);
  const int64_t values = channels * plan.taps * width, line = 64 / int64_t{sizeof(Real)};
  run.ahead = shared_.filters + (set * plan.set_lanes() + k) * plan.terms() + c * plan.taps * width;
  run.ahead_end = run.ahead + values;
  const int64_t tiles = task.rows * ceil_div(task.columns, shared_.kernels.positions);
  run.ahead_lines = ceil_div(values, line * tiles * run.channels);
}

/// Adds the run's terms to the sums of the task, each class of outputs with its taps.
template <class Real>
void ChannelsBand<Real>::sum_classes(const Task& task, ChannelsRun<Real> run) {
  const ChannelsPlan& plan = shared_.plan;
  const Real* const x = run.x;
  Real* const sums = run.sums;
  for (const TapClass& p : plan.p_classes) {
    const int64_t row = std::max(p.begin, task.p), end = std::min(p.end, task.p + task.rows);
    for (const TapClass& q : plan.q_classes) {
      const int64_t column = std::max(q.begin, task.q);
      const int64_t columns = std::min(q.end, task.q + task.columns) - column;
      if (row >= end || columns <= 0) continue;
      ChannelsRun<Real> part = run;
      // Tiles go along the longer side of a narrow rectangle.
      const bool down = columns < shared_.kernels.positions && end - row > columns;
      part.taps =
          taps_of(planes_, p.taps, q.taps, down ? TapRange{} : TapRange{column, column + columns});
      part.taps_count = planes_.count() * p.taps.count() * q.taps.count();
      part.x = x + (row - task.p) * run.x_row + (column - task.q) * run.x_step;
      part.sums = sums + (row - task.p) * run.sums_row + (column - task.q) * run.sums_step;
      part.rows = end - row, part.count = columns;
      if (down) {
        std::swap(part.rows, part.count);
        std::swap(part.x_row, part.x_step);
        std::swap(part.sums_row, part.sums_step);
      }
      shared_.kernels.sum(part);
      run.ahead = part.ahead, run.ahead_lines = part.ahead_lines;
    }
  }
}

/// Computes the sums that are NaN once more, without the taps in the padding: there 0 * Inf made a
/// NaN, where the tap shall contribute nothing.
template <class Real>
void ChannelsBand<Real>::correct(const Task& task, int64_t k, int64_t filters, Real* sums,
                                 int64_t row, int64_t step) const {
  const ConvLaunch& launch = shared_.launch;
  for (int64_t i = 0; i < task.rows; ++i)
    for (int64_t j = 0; j < task.columns; ++j)
      for (int64_t f = 0; f < filters; ++f) {
        Real& sum = sums[i * row + j * step + f];
        if (sum == sum) continue;
        const int64_t of_all = task.set * shared_.plan.set_filters + k + f;
        sum = sum_inside(task, k + f, task.p + i, task.q + j);
        if (launch.bias) sum += element_of<Real>(launch.bias, of_all, shared_.problem.dtype);
        sum += Real{0};
        if (launch.activation == Activation::relu && !launch.accumulate && sum < 0) sum = 0;
      }
}

/// Returns the sum of output (p, q) of the task's plane and filter k of its set, by the definition.
template <class Real>
Real ChannelsBand<Real>::sum_inside(const Task& task, int64_t k, int64_t p, int64_t q) const {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  const ConvProblem& problem = shared_.problem;
  const Triple &stride = problem.stride, &dilation = problem.dilation;
  const Padding& padding = problem.padding;
  const int64_t first = k / plan.run * plan.run;
  const int64_t width = round_up(std::min(plan.run, plan.set_filters - first), plan.lanes);
  const Real* w = shared_.filters + (task.set * plan.set_lanes() + first) * plan.terms() +
                  plan.packed(k - first);
  const int64_t group = plan.by_lane ? k / plan.group_k : task.set;
  Real sum = 0;
  for (int64_t c = 0; c < plan.group_c; ++c)
    for (int64_t t = 0; t < problem.t; ++t)
      for (int64_t r = 0; r < problem.r; ++r)
        for (int64_t s = 0; s < problem.s; ++s, w += width) {
          const int64_t d = boundary_index(problem.boundary.d,
                                           task.z * stride.d + t * dilation.d - padding.front, a.d);
          const int64_t h =
              boundary_index(problem.boundary.h, p * stride.h + r * dilation.h - padding.top, a.h);
          const int64_t column =
              boundary_index(problem.boundary.w, q * stride.w + s * dilation.w - padding.left, a.w);
          if (d < 0 || h < 0 || column < 0) continue;
          const int64_t at = task.n * a.x_n + (group * plan.group_c + c) * a.x_c + d * a.x_d +
                             h * a.x_h + column * a.x_w;
          sum = std::fma(element_of<Real>(shared_.launch.x, at, problem.dtype), *w, sum);
        }
  return sum;
}

template <class Real>
void ChannelsBand<Real>::store(const Task& task, int64_t k, int64_t filters,
                               const Real* sums) const {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  const ConvLaunch& launch = shared_.launch;
  // Rows that follow each other in y are one.
  const bool one = a.y_p == task.columns * a.y_q;
  const int64_t rows = one ? 1 : task.rows, columns = one ? task.rows * task.columns : task.columns;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = task.n * a.y_n + (task.set * plan.set_filters + k) * a.y_k + task.z * a.y_z +
                       (task.p + i) * a.y_p + task.q * a.y_q;
    shared_.kernels.store({.dtype = shared_.problem.dtype,
                           .sums = sums + i * task.columns * plan.sums_step,
                           .sums_step = plan.sums_step,
                           .count = columns,
                           .filters = filters,
                           .y = const_cast<char*>(element_at(launch.y, at, shared_.problem.dtype)),
                           .y_filter = a.y_k,
                           .y_output = a.y_q,
                           .accumulate = launch.accumulate,
                           .relu = launch.activation == Activation::relu,
                           .plus_zero = launch.reproducible});
  }
}

template struct ChannelsLaunch<float>;
template struct ChannelsLaunch<double>;
template class ChannelsBand<float>;
template class ChannelsBand<double>;

}  // namespace plumb
