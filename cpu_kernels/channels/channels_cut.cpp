// Bands are as large as a level-2 cache lets them be, unless that costs more.
#include "cpu_kernels/channels/channels_cut.hpp"

#include <algorithm>

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t slab_limit = 320 << 10;     ///< of a level-2 cache for a band's input
constexpr int64_t filters_limit = 256 << 10;  ///< of it for a run's filters of a block
constexpr int64_t sums_limit = 256 << 10;     ///< of it for sums

double number(int64_t value) { return static_cast<double>(value); }

}  // namespace

template <class Real>
int64_t ChannelsCutter<Real>::pitch(int64_t block) const {
  const int64_t channels = plan_.expand || plan_.turn ? block : 1;
  const int64_t values = !plan_.by_lane ? block : plan_.chunk_inputs() * channels;
  if (plan_.in_place) return values;
  const int64_t line = 64 / int64_t{sizeof(Real)};
  if (values < line) return plan_.by_lane ? round_up(values, plan_.lanes) : values;
  // An odd number of lines spreads the columns over all sets of a level-1 cache.
  const int64_t lines = ceil_div(values, line);
  return (lines % 2 == 0 ? lines + 1 : lines) * line;
}

/// Returns the bytes of x, or of the slab, under a band.
template <class Real>
double ChannelsCutter<Real>::window_bytes(const ChannelsCut& cut) const {
  return number(problem_.t * plan_.h.slab_count(cut.rows)) *
         number(plan_.w.slab_count(cut.columns)) * number(pitch(cut.block)) * sizeof(Real);
}

/// Returns the most channels of a block with which a band keeps its limits; at least one.
template <class Real>
int64_t ChannelsCutter<Real>::block_of(int64_t rows, int64_t columns) const {
  const int64_t of_run = filters_limit / (plan_.run * plan_.taps * int64_t{sizeof(Real)});
  int64_t block = std::clamp<int64_t>(of_run, 1, plan_.group_c);
  const auto fits = [&](int64_t channels) {
    return window_bytes({rows, columns, channels, 0}) <= slab_limit;
  };
  if (!fits(block)) {
    int64_t low = 1;  // the window grows with the block
    for (int64_t high = block; high - low > 1;) {
      const int64_t middle = (low + high) / 2;
      (fits(middle) ? low : high) = middle;
    }
    block = low;
  }
  // Blocks are as equal as can be, and of whole cache lines.
  const int64_t line = 64 / int64_t{sizeof(Real)};
  const int64_t even = ceil_div(plan_.group_c, ceil_div(plan_.group_c, block));
  return even > line && round_up(even, line) <= block ? round_up(even, line) : even;
}

/// Returns the positions that take as long as the tiles of rows and columns do with so many terms:
/// small ones are counted for the latency of an FMA, and for their loads. Tiles go along the longer
/// side of a narrow rectangle.
template <class Real>
double ChannelsCutter<Real>::tiles(int64_t rows, int64_t columns, double terms) const {
  constexpr int64_t latency_sums = 8;
  constexpr double begin = 80;  // products that take as long as what a tile does beside its terms
  const int64_t vectors = plan_.run / plan_.lanes;
  if (columns < kernels_.positions && rows > columns) std::swap(rows, columns);
  const int64_t along = ceil_div(columns, kernels_.positions), of_tile = ceil_div(columns, along);
  const double turns = number(std::max(of_tile * vectors, latency_sums));
  const double loads = number(plan_.by_lane ? (of_tile + 1) * vectors : of_tile + vectors);
  return number(rows * along) * (std::max(turns, loads) * terms + begin) / number(vectors);
}

/// Returns the products that all positions of an image take, for each filter.
template <class Real>
double ChannelsCutter<Real>::positions(const ChannelsCut& cut) const {
  double all = 0, planes = 0;
  for (const TapClass& z : plan_.z_classes) planes += number(z.count() * z.taps.count());
  planes /= number(plan_.axes.z);
  for (const TapClass& p : plan_.p_classes)
    for (const TapClass& q : plan_.q_classes) {
      const int64_t rows = std::min(p.count(), cut.rows),
                    columns = std::min(q.count(), cut.columns);
      const double times = number(p.count()) / number(rows) * number(q.count()) / number(columns);
      double terms = planes * number(p.taps.count() * q.taps.count()) * number(cut.block);
      if (columns >= kernels_.positions || rows <= columns) terms *= 1 - plan_.in_zeros;
      all += times * tiles(rows, columns, terms);
    }
  return number(plan_.axes.z) * all * number(plan_.group_c) / number(cut.block);
}

/// Returns how many planes are copied for a plane of outputs. Of neighbours' those stay that both
/// have, unless the slab is filled several times for each.
template <class Real>
double ChannelsCutter<Real>::planes(const ChannelsCut& cut) const {
  const TapAxis& d = plan_.d;
  const bool shared = cut.block == plan_.group_c && d.stride % d.dilation == 0;
  const int64_t news = shared ? std::min(d.taps, d.stride / d.dilation) : d.taps;
  return number(d.taps + (plan_.axes.z - 1) * news) / number(plan_.axes.z);
}

/// Returns the products that the copy of a band's input takes.
template <class Real>
double ChannelsCutter<Real>::copied(const ChannelsCut& cut) const {
  // Of an element whose neighbour is the next channel, or the next column, and elsewhere; of one
  // that is copied to its filters.
  constexpr double neighbours = 6, turned = 20, scattered = 60, expanded = 6, row = 3000;
  if (plan_.in_place) return 0;
  const ChannelsAxes& a = plan_.axes;
  double copy = neighbours;
  if (a.x_c != 1) {
    const bool rows = sizeof(Real) == sizeof(float) && a.x_w * plan_.w.every == 1;
    copy = !rows ? scattered : size_in_bytes(problem_.dtype) == sizeof(Real) ? turned : 2 * turned;
  }
  const int64_t groups = plan_.by_lane ? plan_.set_filters / plan_.group_k : plan_.sets;
  double of_column = number(groups * plan_.group_c) * copy;
  if (plan_.expand)
    of_column += number(plan_.sets * plan_.set_lanes()) * number(plan_.group_c) * expanded;
  // Each row of each part is begun.
  const int64_t parts = ceil_div(plan_.set_filters, plan_.chunk) * plan_.sets;
  const double rows = planes(cut) * number(plan_.h.slab_count(cut.rows));
  return rows * (number(plan_.w.slab_count(cut.columns)) * of_column +
                 number(plan_.by_lane ? parts : plan_.sets) * row *
                     number(ceil_div(plan_.group_c, cut.block)));
}

template <class Real>
double ChannelsCutter<Real>::products(const ChannelsCut& cut) const {
  // Of a sum that is loaded and stored, of one that is turned on its way to y, and of a weight from
  // beyond the second cache.
  constexpr double sum = 4, turned = 20, weight = 5;
  const ChannelsAxes& a = plan_.axes;
  const double lanes = number(plan_.sets * plan_.set_lanes());
  const double blocks = number(ceil_div(plan_.group_c, cut.block));
  const double outputs = number(a.z * a.p) * number(a.q);
  const double bands = number(a.z * ceil_div(a.p, cut.rows) * ceil_div(a.q, cut.columns));
  double all = lanes * (positions(cut) + outputs * sum * blocks);
  if (a.y_k != 1) all += lanes * outputs * turned;
  all += bands * copied(cut);
  const double weights = lanes * number(plan_.terms());
  if (plan_.streams_filters) all += bands * weights * weight;
  return number(a.n) * all;
}

template <class Real>
ChannelsCut ChannelsCutter<Real>::best() const {
  const ChannelsAxes& a = plan_.axes;
  ChannelsCut best{};
  for (int64_t columns = a.q;; columns = ceil_div(columns, 2)) {
    for (int64_t rows = a.p;; rows = ceil_div(rows, 2)) {
      ChannelsCut cut{rows, columns, block_of(rows, columns), 0};
      const bool last = columns <= kernels_.positions && rows == 1;
      const bool fits = window_bytes(cut) <= 2 * slab_limit;
      const bool small =
          number(rows) * number(columns) * number(plan_.chunk) * sizeof(Real) <= sums_limit ||
          number(rows) * number(columns) <= number(16 * kernels_.positions);
      if ((fits && small) || (last && best.rows == 0)) {
        cut.products = products(cut);
        if (best.rows == 0 || cut.products < best.products) best = cut;
      }
      if (rows == 1) break;
    }
    if (columns <= kernels_.positions) break;
  }
  return best;
}

template class ChannelsCutter<float>;
template class ChannelsCutter<double>;

}  // namespace plumb
