// Bands of outputs with vectors over images: slabs are loaded, runs of filters summed and stored.
#include "cpu_kernels/images/images_band.hpp"

#include <algorithm>
#include <utility>

#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {

using std::int64_t;

template <class Real>
ImagesBand<Real>::ImagesBand(const ImagesLaunch<Real>& shared, std::byte* slot) : shared_(shared) {
  const ImagesPlan& plan = shared.plan;
  slab_ = reinterpret_cast<Real*>(slot);
  bias_ = reinterpret_cast<Real*>(slot + plan.slab_bytes);
  sums_ = reinterpret_cast<Real*>(slot + plan.slab_bytes + plan.bias_bytes);
  // Lanes without an image are computed too, and are slow where they are subnormal.
  if (shared.problem.n % plan.lanes != 0)
    std::fill_n(slab_, plan.slab_bytes / sizeof(Real), Real{0});
  if (shared.launch.bias)
    with_stored<Real>(shared.problem.dtype, [&](auto stored) {
      load_row(static_cast<const decltype(stored)*>(shared.launch.bias), 1, shared.problem.k,
               bias_);
    });
  taps_.resize(static_cast<std::size_t>(plan.taps()));
}

template <class Real>
typename ImagesBand<Real>::Task ImagesBand<Real>::task_of(int64_t index) const {
  const ImagesPlan& plan = shared_.plan;
  Task task{};
  task.p = index % plan.bands * plan.rows, index /= plan.bands;
  task.rows = std::min(plan.rows, plan.p - task.p);
  task.group = index % shared_.problem.groups;
  task.n = index / shared_.problem.groups * plan.lanes;
  task.images = std::min(plan.lanes, shared_.problem.n - task.n);
  return task;
}

template <class Real>
void ImagesBand<Real>::run(int64_t index) {
  const ImagesPlan& plan = shared_.plan;
  const Task task = task_of(index);
  const int64_t of_filter = task.rows * plan.sums_row();
  slab_rows_ = plan.h.slab_places(task.p, task.rows);
  slab_columns_ = plan.w.slab_places(0, plan.q);
  for (int64_t c = 0; c < plan.group_c; c += plan.block) {
    const int64_t channels = std::min(plan.block, plan.group_c - c);
    load_slab(task, c, channels);
    for (int64_t k = 0; k < plan.group_k;) {
      const int64_t filters = run_filters(plan.group_k - k, shared_.kernels.filters);
      Real* const sums = sums_ + (plan.blocks > 1 ? k * of_filter : 0);
      sum_run(task, k, filters, c, channels, sums);
      if (c + channels == plan.group_c) store(task, k, filters, sums);
      k += filters;
    }
  }
}

/// Copies the rows and columns of channels [c, c + channels) that lie under the task.
template <class Real>
void ImagesBand<Real>::load_slab(const Task& task, int64_t c, int64_t channels) {
  const ImagesPlan& plan = shared_.plan;
  const ConvProblem& p = shared_.problem;
  const Strides& x = p.x_strides;
  const int64_t column = plan.w.first(0) + slab_columns_.begin * plan.w.every;
  ChannelsLoad<Real> load{.dtype = p.dtype,
                          .x = nullptr,
                          .x_column = plan.w.every * x[3],
                          .x_channel = x[0],
                          .x_group = 0,
                          .columns = slab_columns_.count(),
                          .channels = task.images,
                          .groups = 1,
                          .to = nullptr,
                          .pitch = plan.lanes,
                          .expand = false,
                          .filters = 0,
                          .group_filters = 0,
                          .skip = 0,
                          .staged = nullptr};
  if (load.columns == 0) return;
  for (int64_t i = 0; i < channels; ++i)
    for (int64_t row = slab_rows_.begin; row < slab_rows_.end; ++row) {
      const int64_t h = plan.h.first(task.p) + row * plan.h.every;
      const int64_t at =
          task.n * x[0] + (task.group * plan.group_c + c + i) * x[1] + h * x[2] + column * x[3];
      load.x = element_at(shared_.launch.x, at, p.dtype);
      load.to = slab_ + i * plan.channel + (row - slab_rows_.begin) * plan.row;
      shared_.copies.load(load);
    }
}

/// Lists the taps of a class, from the first output's first tap on; returns how many there are.
template <class Real>
int64_t ImagesBand<Real>::fill_taps(TapRange r, TapRange s) {
  const ImagesPlan& plan = shared_.plan;
  ChannelsTap* to = taps_.data();
  for (int64_t j = r.begin; j < r.end; ++j)
    for (int64_t l = s.begin; l < s.end; ++l)
      *to++ = {.x = j * plan.h.slab_dilation() * plan.row + l * plan.w.slab_dilation() * plan.lanes,
               .w = j * plan.w.taps + l};
  return to - taps_.data();
}

/// Adds channels [c, c + channels) to the sums of a run of filters.
template <class Real>
void ImagesBand<Real>::sum_run(const Task& task, int64_t k, int64_t filters, int64_t c,
                               int64_t channels, Real* sums) {
  const ImagesPlan& plan = shared_.plan;
  const ConvLaunch& launch = shared_.launch;
  const bool last = c + channels == plan.group_c;
  const int64_t of_all = task.group * plan.group_k + k;
  const int64_t terms = plan.group_c * plan.taps();
  sum_classes(task, {.x = slab_ - slab_rows_.begin * plan.row - slab_columns_.begin * plan.lanes,
                     .x_row = plan.h.slab_stride() * plan.row,
                     .x_step = plan.w.slab_stride() * plan.lanes,
                     .x_channel = plan.channel,
                     .channels = channels,
                     .taps = taps_.data(),
                     .taps_count = 0,
                     .w = static_cast<const Real*>(launch.filters) + of_all * terms +
                          c * plan.taps() * filters,
                     .w_taps = plan.taps(),
                     .filters = filters,
                     .sums = sums,
                     .sums_filter = task.rows * plan.sums_row(),
                     .sums_row = plan.sums_row(),
                     .sums_step = plan.lanes,
                     .rows = 0,
                     .count = 0,
                     .first = c == 0,
                     .bias = last && launch.bias ? bias_ + of_all : nullptr,
                     .relu = last && launch.activation == Activation::relu && !launch.accumulate,
                     .plus_zero = last && launch.reproducible});
}

/// Adds the run's terms to the sums of the task, each class of outputs with its taps.
template <class Real>
void ImagesBand<Real>::sum_classes(const Task& task, ImagesRun<Real> run) {
  const ImagesPlan& plan = shared_.plan;
  for (const TapClass& p : plan.p_classes) {
    const int64_t row = std::max(p.begin, task.p), end = std::min(p.end, task.p + task.rows);
    if (row >= end) continue;
    for (const TapClass& q : plan.q_classes) {
      ImagesRun<Real> part = run;
      part.taps_count = fill_taps(p.taps, q.taps);
      part.x += (row - task.p) * run.x_row + q.begin * run.x_step;
      part.sums += (row - task.p) * run.sums_row + q.begin * run.sums_step;
      part.rows = end - row, part.count = q.count();
      // Tiles go along the longer side of a narrow rectangle.
      if (part.count < shared_.kernels.outputs(run.filters) && part.rows > part.count) {
        std::swap(part.rows, part.count);
        std::swap(part.x_row, part.x_step);
        std::swap(part.sums_row, part.sums_step);
      }
      shared_.kernels.sum(part);
    }
  }
}

template <class Real>
void ImagesBand<Real>::store(const Task& task, int64_t k, int64_t filters, const Real* sums) const {
  const ImagesPlan& plan = shared_.plan;
  const ConvLaunch& launch = shared_.launch;
  const Strides& y = shared_.problem.y_strides;
  // Rows that follow each other in y are one.
  const bool one = y[2] == plan.q * y[3];
  const int64_t rows = one ? 1 : task.rows, columns = one ? task.rows * plan.q : plan.q;
  for (int64_t i = 0; i < filters; ++i)
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at =
          task.n * y[0] + (task.group * plan.group_k + k + i) * y[1] + (task.p + row) * y[2];
      shared_.copies.store({.dtype = shared_.problem.dtype,
                            .sums = sums + i * task.rows * plan.sums_row() + row * plan.sums_row(),
                            .sums_step = plan.lanes,
                            .count = columns,
                            .filters = task.images,
                            .y = const_cast<char*>(element_at(launch.y, at, shared_.problem.dtype)),
                            .y_filter = y[0],
                            .y_output = y[3],
                            .accumulate = launch.accumulate,
                            .relu = launch.activation == Activation::relu,
                            .plus_zero = launch.reproducible});
    }
}

template class ImagesBand<float>;
template class ImagesBand<double>;

}  // namespace plumb
