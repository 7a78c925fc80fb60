// What a band reads of x, with what the boundaries show around it, is copied to its slab.
#include <algorithm>

#include "cpu_kernels/channels/channels_band.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {

using std::int64_t;

/// Finds which places under the task the slab has: all, or, where taps in zeros are left out, those
/// in the image.
template <class Real>
void ChannelsBand<Real>::place(const Task& task) {
  const ChannelsPlan& plan = shared_.plan;
  planes_ = plan.d.skips ? plan.d.inside(task.z) : TapRange{0, plan.d.taps};
  slab_rows_ = plan.h.slab_places(task.p, task.rows);
  slab_columns_ = plan.w.slab_places(task.q, task.columns);
}

/// Says whether planes of the slab are of the task's band and channels.
template <class Real>
bool ChannelsBand<Real>::same_band(const Task& task) const {
  if (!is_loaded_ || shared_.plan.blocks > 1) return false;
  const bool same_filters = !shared_.plan.by_lane || task.k == loaded_.k;
  return same_filters && task.set == loaded_.set && task.n == loaded_.n && task.p == loaded_.p &&
         task.q == loaded_.q;
}

/// Finds a plane of the slab for each plane of taps: the one that has its input, or one that none
/// of them wants. Returns which are to be loaded.
template <class Real>
const std::vector<bool>& ChannelsBand<Real>::find_planes(const Task& task) {
  const TapAxis& axis = shared_.plan.d;
  if (!same_band(task)) std::fill(held_.begin(), held_.end(), no_plane);
  const auto depth = [&](int64_t t) { return axis.first(task.z) + t * axis.dilation; };
  std::vector<bool> wanted(held_.size());
  for (int64_t t = planes_.begin; t < planes_.end; ++t) {
    const auto at = std::find(held_.begin(), held_.end(), depth(t));
    loads_[t] = at == held_.end();
    slots_[t] = at - held_.begin();
    if (!loads_[t]) wanted[slots_[t]] = true;
  }
  for (int64_t t = planes_.begin; t < planes_.end; ++t) {
    if (!loads_[t]) continue;
    slots_[t] = std::find(wanted.begin(), wanted.end(), false) - wanted.begin();
    wanted[slots_[t]] = true, held_[slots_[t]] = depth(t);
  }
  taps_t_ = {};  // the taps at hand are of other planes
  return loads_;
}

/// Copies the input of a band's outputs, channels [c, c + channels) of each group, and what the
/// boundaries show around the image.
template <class Real>
void ChannelsBand<Real>::load_slab(const Task& task, int64_t c, int64_t channels) {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  const ConvProblem& p = shared_.problem;
  const int64_t group = plan.by_lane ? task.k / plan.group_k : task.set;
  const int64_t first = task.n * a.x_n + (group * plan.group_c + c) * a.x_c;
  const int64_t width = slab_columns_.count() * plan.pitch;
  const std::vector<bool>& loads = find_planes(task);
  for (int64_t t = planes_.begin; t < planes_.end; ++t) {
    if (!loads[t]) continue;
    const int64_t d = boundary_index(p.boundary.d, plan.d.first(task.z) + t * plan.d.dilation, a.d);
    for (int64_t i = slab_rows_.begin; i < slab_rows_.end; ++i) {
      const int64_t h = boundary_index(p.boundary.h, plan.h.first(task.p) + i * plan.h.every, a.h);
      Real* const to = slab_ + slots_[t] * plan.plane + (i - slab_rows_.begin) * plan.row;
      if (d < 0 || h < 0)
        std::fill_n(to, width, Real{0});
      else
        load_row(task, channels,
                 element_at(shared_.launch.x, first + d * a.x_d + h * a.x_h, p.dtype), to);
    }
  }
}

/// Copies a row of the slab; x is the first column of its row.
template <class Real>
void ChannelsBand<Real>::load_row(const Task& task, int64_t channels, const char* x, Real* to) {
  const ChannelsPlan& plan = shared_.plan;
  const ChannelsAxes& a = plan.axes;
  const ConvProblem& p = shared_.problem;
  const int64_t every = plan.w.every, left = plan.w.first(task.q);
  TapAxis in_image = plan.w;
  in_image.skips = true;
  const TapRange inside = in_image.slab_places(task.q, task.columns);
  const int64_t last = task.k + task.filters - 1;
  const int64_t groups = plan.by_lane ? last / plan.group_k - task.k / plan.group_k + 1 : 1;
  ChannelsLoad<Real> load{
      .dtype = p.dtype,
      .x = nullptr,
      .x_column = every * a.x_w,
      .x_channel = a.x_c,
      .x_group = plan.group_c * a.x_c,
      .columns = 0,
      .channels = plan.by_lane && !plan.expand && !plan.turn ? groups : channels,
      .groups = groups,
      .to = nullptr,
      .pitch = plan.pitch,
      .expand = plan.expand,
      .turn = plan.turn ? plan.groups : 0,
      .filters = plan.turn ? plan.groups * plan.block : plan.chunk,
      .group_filters = plan.group_k,
      .skip = plan.by_lane ? task.k % plan.group_k : 0,
      .staged = staged_};
  const auto copy = [&](int64_t column, int64_t w, int64_t count) {
    load.x = element_at(x, w * a.x_w, p.dtype);
    load.columns = count;
    load.to = to + (column - slab_columns_.begin) * plan.pitch;
    shared_.kernels.load(load);
  };
  if (inside.count() > 0) copy(inside.begin, left + inside.begin * every, inside.count());
  for (int64_t i = slab_columns_.begin; i < slab_columns_.end; ++i) {
    if (i == inside.begin) i = inside.end;
    if (i >= slab_columns_.end) break;
    const int64_t w = boundary_index(p.boundary.w, left + i * every, a.w);
    if (w < 0)
      std::fill_n(to + (i - slab_columns_.begin) * plan.pitch, plan.pitch, Real{0});
    else
      copy(i, w, 1);
  }
}

template void ChannelsBand<float>::place(const Task&);
template void ChannelsBand<float>::load_slab(const Task&, int64_t, int64_t);
template void ChannelsBand<double>::place(const Task&);
template void ChannelsBand<double>::load_slab(const Task&, int64_t, int64_t);

}  // namespace plumb
