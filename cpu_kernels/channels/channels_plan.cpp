// Axes are joined, filters put into vectors, and what a band needs gets its place.
#include "cpu_kernels/channels/channels_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cpu_kernels/channels/channels_cut.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// More rectangles beside each other than this would be narrow.
constexpr std::size_t max_column_classes = 9;

double number(int64_t value) { return static_cast<double>(value); }

/// Joins rows of a convolution without a filter's extent, then planes, then images, where one
/// follows the other.
void join_outputs(ChannelsAxes& a) {
  if (a.x_h == a.w * a.x_w && a.y_p == a.q * a.y_q) {
    a.w *= a.h, a.q *= a.p;
    a.h = a.p = 1;
  }
  if (a.p == 1 && a.x_d == a.w * a.x_w && a.y_z == a.q * a.y_q) {
    a.w *= a.d, a.q *= a.z;
    a.d = a.z = 1;
  }
  if (a.p == 1 && a.z == 1 && a.x_n == a.w * a.x_w && a.y_n == a.q * a.y_q) {
    a.w *= a.n, a.q *= a.n;
    a.n = 1;
  }
  a.q_step = a.x_w;
}

ChannelsAxes channels_axes(const ConvProblem& p) {
  const Strides &x = p.x_strides, &y = p.y_strides;
  const bool deep = p.has_depth();
  const int last = deep ? 4 : 3;
  ChannelsAxes a{.n = std::max<int64_t>(p.n, 1),
                 .d = deep ? p.d : 1,
                 .h = p.h,
                 .w = p.w,
                 .z = p.z(),
                 .p = p.p(),
                 .q = p.q(),
                 .x_n = x[0],
                 .x_c = x[1],
                 .x_d = deep ? x[2] : 0,
                 .x_h = x[last - 1],
                 .x_w = x[last],
                 .y_n = y[0],
                 .y_k = y[1],
                 .y_z = deep ? y[2] : 0,
                 .y_p = y[last - 1],
                 .y_q = y[last],
                 .q_step = p.stride.w * x[last]};
  if (p.t * p.r * p.s == 1 && p.stride == Triple{} && p.padding == Padding{}) join_outputs(a);
  return a;
}

/// Says whether a level-1 cache of 64 sets of 12 lines has room for the lines of x that a tile's
/// channel reads, and half as many: where channels are a power of two, they share a few sets.
template <class Real>
bool lines_stay(const ChannelsPlan& plan, int64_t positions) {
  constexpr int64_t sets = 64, ways = 12, line = 64;
  const int64_t step = plan.axes.x_w * int64_t{sizeof(Real)};
  const int64_t reached = step % line == 0 ? sets / std::gcd(step / line, sets) : sets;
  const int64_t columns = std::min(plan.w.count(positions), positions * plan.w.taps);
  return 3 * columns * plan.h.taps * plan.d.taps <= 2 * reached * ways;
}

/// Has x read where it lies, where all that is padded is skipped and nothing is widened, and a
/// tile's lines stay in a level-1 cache. Images of one output are a row of outputs there, and their
/// channels may lie anywhere.
template <class Real>
void read_in_place(const ConvProblem& p, int64_t positions, ChannelsPlan& plan) {
  if (size_in_bytes(p.dtype) != sizeof(Real)) return;
  ChannelsAxes& a = plan.axes;
  if (p.padding == Padding{} && a.z * a.p * a.q == 1 && !plan.by_lane) {
    plan.in_place = true;
    a.q = a.n, a.n = 1;
    a.q_step = a.x_n, a.y_q = a.y_n;
    return;
  }
  const Padding& padding = p.padding;
  const bool shows = (!plan.d.skips && padding.front + padding.back > 0) ||
                     (!plan.h.skips && padding.top + padding.bottom > 0) ||
                     (!plan.w.skips && padding.left + padding.right > 0);
  if (plan.expand || plan.turn || a.x_c != 1 || shows) return;
  plan.in_place =
      plan.by_lane ? plan.set_filters % plan.lanes == 0 : lines_stay<Real>(plan, positions);
}

/// Whether the taps that outputs of a row have in zeros are left out, and the filters of a chunk of
/// those that have a slab each.
struct Choice {
  bool skips_columns;
  int64_t chunk;
};

/// Sets what follows from the problem and the choice.
template <class Real>
ChannelsPlan begin_plan(const ConvProblem& p, const ChannelsKernels<Real>& kernels,
                        const Choice& choice) {
  ChannelsPlan plan{};
  plan.axes = channels_axes(p);
  const ChannelsAxes& a = plan.axes;
  // A row or plane of taps in zeros is left out for all outputs of a row.
  plan.d = tap_axis(p.t, p.stride.d, p.dilation.d, p.padding.front, a.d,
                    p.boundary.d == Boundary::zeros);
  plan.h =
      tap_axis(p.r, p.stride.h, p.dilation.h, p.padding.top, a.h, p.boundary.h == Boundary::zeros);
  plan.w = tap_axis(p.s, p.stride.w, p.dilation.w, p.padding.left, a.w, choice.skips_columns);
  plan.lanes = kernels.lanes;
  plan.taps = p.t * p.r * p.s;
  plan.group_c = p.c / p.groups, plan.group_k = p.k / p.groups;
  // Groups of few filters share vectors. Where two or four fill one, their inputs are repeated as
  // they are loaded; others' are copied, and half of a vector is less than copies of many channels.
  const int64_t groups = plan.lanes % plan.group_k == 0 ? plan.lanes / plan.group_k : 1;
  const bool repeats = p.groups > 1 && (groups == 2 || groups == 4) && groups < plan.lanes &&
                       (plan.group_c == 1 || plan.group_c >= 4);
  plan.by_lane = repeats || (p.groups > 1 && plan.group_k < plan.lanes &&
                             (2 * plan.group_k < plan.lanes || plan.group_c <= 2));
  plan.groups = repeats ? groups : plan.by_lane ? plan.lanes : 1;
  plan.expand = plan.by_lane && !repeats && (plan.group_k > 1 || plan.group_c > 1);
  plan.turn = repeats && plan.group_c > 1;
  plan.sets = plan.by_lane ? 1 : p.groups;
  plan.set_filters = plan.by_lane ? p.k : plan.group_k;
  const double filters = number(plan.sets * plan.set_lanes()) * number(plan.terms());
  plan.streams_filters = !plan.by_lane && filters * sizeof(Real) > kept_filters;
  plan.run = repeats
                 ? plan.lanes
                 : std::min(kernels.vectors, ceil_div(plan.set_filters, plan.lanes)) * plan.lanes;
  for (const auto& [axis, outputs] : {std::pair{&plan.d, a.z}, {&plan.h, a.p}})
    axis->skips = axis->skips && tap_classes(*axis, outputs).size() <= max_tap_classes;
  plan.zero_columns =
      !plan.w.skips && p.padding.left + p.padding.right > 0 && p.boundary.w == Boundary::zeros;
  if (plan.zero_columns && !plan.by_lane) {
    const int64_t inside = plan.w.inside(0).count() + plan.w.inside(a.q - 1).count();
    plan.in_zeros = number(2 * p.s - inside) / number(std::max<int64_t>(a.q, 2) * p.s);
  }
  read_in_place<Real>(p, kernels.positions, plan);
  plan.z_classes = tap_classes(plan.d, a.z);
  plan.p_classes = tap_classes(plan.h, a.p);
  plan.q_classes = tap_classes(plan.w, a.q);
  // By lane a slab has the input of a chunk's filters, else all of a set share the slab.
  const int64_t whole = round_up(plan.set_filters, plan.run);
  plan.chunk =
      plan.by_lane && !plan.in_place ? std::min(whole, round_up(choice.chunk, plan.run)) : whole;
  return plan;
}

/// Sets where a band's parts lie; says whether they fit.
template <class Real>
bool place_parts(const ConvProblem& p, const ChannelsCutter<Real>& cutter, ChannelsPlan& plan) {
  if (!plan.in_place) {
    plan.pitch = cutter.pitch(plan.block);
    plan.row = plan.pitch * plan.w.slab_count(plan.columns);
    const double plane = number(plan.row) * number(plan.h.slab_count(plan.rows));
    if (plane * number(p.t) * sizeof(Real) > workspace_limit_bytes) return false;
    plan.plane = plan.row * plan.h.slab_count(plan.rows);
    plan.slab_bytes = padded((p.t * plan.plane + 2 * plan.lanes) * int64_t{sizeof(Real)});
  }
  const bool stages = plan.expand || plan.turn;
  const double staged =
      stages ? number(staged_columns) * number(plan.chunk) * number(plan.block) : 0;
  const double sums = number(plan.rows) * number(plan.columns) * number(plan.chunk);
  if ((staged + sums) * sizeof(Real) > workspace_limit_bytes) return false;
  if (stages) {
    const int64_t groups = ceil_div(plan.chunk, plan.group_k) + 1;
    plan.staged_bytes =
        padded((staged_columns * groups * plan.block + plan.lanes) * int64_t{sizeof(Real)});
  }
  plan.bias_bytes = padded(plan.chunk * int64_t{sizeof(Real)});
  plan.sums_step = plan.blocks == 1 && !plan.by_lane ? plan.run : plan.chunk;
  plan.sums_bytes = padded(plan.rows * plan.columns * plan.sums_step * int64_t{sizeof(Real)});
  return plan.slot_bytes() <= workspace_limit_bytes;
}

}  // namespace

template <class Real>
ChannelsPlan plan_channels(const ConvProblem& p, const ChannelsKernels<Real>& kernels,
                           int threads) {
  ChannelsPlan plan{};
  ChannelsCut best{};
  const bool zeros = p.padding.left + p.padding.right > 0 && p.boundary.w == Boundary::zeros;
  for (const bool skips : {false, true})
    for (int64_t chunk = 64; zeros || !skips; chunk *= 2) {
      ChannelsPlan other = begin_plan(p, kernels, {skips, chunk});
      const bool all = other.chunk >= other.set_filters;
      if (other.q_classes.size() > max_column_classes) break;
      const ChannelsCut cut = ChannelsCutter<Real>(p, kernels, other).best();
      if (best.rows == 0 || cut.products < best.products) best = cut, plan = std::move(other);
      if (all) break;
    }
  const ChannelsAxes& a = plan.axes;
  plan.rows = best.rows, plan.columns = best.columns, plan.block = best.block;
  plan.products = best.products;
  plan.bands = ceil_div(a.p, plan.rows), plan.column_bands = ceil_div(a.q, plan.columns);
  plan.blocks = ceil_div(plan.group_c, plan.block);
  // Few bands share their filters among threads.
  const int64_t runs = plan.chunk / plan.run, chunks = ceil_div(plan.set_filters, plan.chunk);
  const int64_t bands = a.n * a.z * plan.bands * plan.column_bands * plan.sets * chunks;
  if (threads > 1 && bands < 4 * threads)
    plan.chunk = ceil_div(runs, std::min(runs, ceil_div(int64_t{4} * threads, bands))) * plan.run;
  plan.chunks = ceil_div(plan.set_filters, plan.chunk);
  const ChannelsCutter<Real> cutter(p, kernels, plan);
  if (!place_parts(p, cutter, plan)) plan.chunks = 0;
  return plan;
}

template ChannelsPlan plan_channels(const ConvProblem&, const ChannelsKernels<float>&, int);
template ChannelsPlan plan_channels(const ConvProblem&, const ChannelsKernels<double>&, int);

}  // namespace plumb
