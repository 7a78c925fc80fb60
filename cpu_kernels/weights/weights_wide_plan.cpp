// Bands, blocks and parts of backward weights with vectors over channels get their sizes here.
#include "cpu_kernels/weights/weights_wide_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace plumb {
namespace {

using std::int64_t;

int64_t step_of(int64_t stride, int64_t outputs) { return outputs > 1 ? stride : 1; }
int64_t taps_of(const ConvProblem& p) { return p.t * p.r * p.s; }

template <class Real>
bool is_own(const ConvProblem& p) {
  return p.dtype == (sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32);
}

/// Returns how the planes of a band lie, counted in positions.
Planes planes_of(const ConvProblem& p, int64_t rows, bool by_taps, bool by_rows) {
  const int64_t step_h = step_of(p.stride.h, p.p()), step_w = step_of(p.stride.w, p.q());
  const int64_t reach_h = (p.r - 1) * p.dilation.h, reach_w = (p.s - 1) * p.dilation.w;
  Planes planes{};
  planes.row_planes = std::min(step_h, reach_h + 1);
  planes.column_planes = by_taps ? p.s : std::min(step_w, reach_w + 1);
  planes.column_step = by_taps ? p.dilation.w : 1;
  planes.pitch = by_taps ? p.q() : p.q() + reach_w / step_w;
  if (by_rows) planes.column_planes = 1, planes.pitch = (p.q() - 1) * step_w + reach_w + 1;
  planes.rows = rows + reach_h / step_h;
  planes.plane = planes.rows * planes.pitch;
  return planes;
}

/// Says whether planes for each filter column, whose rows are one run, take less time than planes
/// with a halo.
bool saves_by_taps(const ConvProblem& p, bool dy_rows_in_line, int64_t filters) {
  if (p.s == 1 || !dy_rows_in_line) return false;
  // A row takes the time of so many positions more; a copied element of so many products.
  constexpr double of_row = 1.2, of_copy = 20;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return of_row / number(p.q()) > of_copy * number(p.s - 1) / number(filters * taps_of(p));
}

/// Says whether rows of x are long enough to be turned where they lie, and taps meet all of their
/// columns: then planes have columns in their order whatever the stride is, since positions need
/// not be neighbours.
template <class Real>
bool turns_rows(const ConvProblem& p) {
  constexpr int64_t long_enough = 8;  // for squares that are turned in registers
  const int64_t reach_w = (p.s - 1) * p.dilation.w;
  return is_own<Real>(p) && weights_axes(p).x_w == 1 && p.w >= long_enough &&
         reach_w + 1 >= step_of(p.stride.w, p.q());
}

/// Says whether a band's rows of dy are one run.
bool dy_in_line(const ConvProblem& p, const WeightsWidePlan& plan) {
  const WeightsAxes axes = weights_axes(p);
  return !plan.dy_in_place || p.p() == 1 || axes.y_p == p.q() * axes.y_q;
}

/// Decides what of x and dy is copied, and how it lies then.
template <class Real>
void lay_out(const ConvProblem& p, const WeightsKernels<Real>& kernels, WeightsWidePlan& plan) {
  const WeightsAxes axes = weights_axes(p);
  const int64_t q = p.q(), group_c = p.c / p.groups;
  // Positions that lie far apart, by a power of two often, share the sets of a cache.
  constexpr int64_t far_bytes = 512;
  const bool own = is_own<Real>(p);
  plan.turns_dy =
      own && axes.y_k == 1 && q > 1 && std::abs(axes.y_q) * int64_t{sizeof(Real)} >= far_bytes;
  plan.dy_in_place = own && !plan.turns_dy;
  plan.in_x = own && p.padding == Padding{} && axes.x_c == 1 && group_c % kernels.lanes == 0 &&
              group_c <= 2 * kernels.tile_channels;
  plan.by_rows = !plan.in_x && axes.x_c != 1 && !turns_in_x<Real>(p) && turns_rows<Real>(p);
  plan.by_taps =
      !plan.in_x && !plan.by_rows && saves_by_taps(p, dy_in_line(p, plan), p.k / p.groups);
  plan.planes = planes_of(p, plan.sum.rows, plan.by_taps, plan.by_rows);
  plan.of_channel = plan.planes.row_planes * plan.planes.column_planes * plan.planes.plane;
  plan.image_planes = p.t * plan.of_channel;
}

/// Returns the filters whose sums and gradients of a band stay in caches beside some channels.
int64_t filters_beside(const ConvProblem& p, const WeightsWidePlan& plan, int64_t channels,
                       int64_t real_bytes) {
  constexpr int64_t sums_limit = 1 << 20, gradients_limit = 512 << 10, max_filters = 512;
  const int64_t positions = plan.sum.images_together * plan.sum.rows * p.q();
  return std::clamp<int64_t>(std::min(gradients_limit / (positions * real_bytes),
                                      sums_limit / (channels * taps_of(p) * real_bytes)),
                             1, std::min(max_filters, p.k / p.groups));
}

/// Cuts channels so that a block's planes stay in a level-2 cache.
template <class Real>
void cut_channels(const ConvProblem& p, const WeightsKernels<Real>& kernels,
                  WeightsWidePlan& plan) {
  constexpr int64_t planes_limit = 384 << 10, max_channels = 256, max_filters = 512;
  const int64_t group_k = p.k / p.groups, group_c = p.c / p.groups;
  const int64_t channel = plan.sum.images_together * plan.image_planes * int64_t{sizeof(Real)};
  const int64_t tile = kernels.tile_channels, fitting = planes_limit / channel;
  int64_t most = std::min(max_channels, fitting) / tile * tile;
  if (most == 0)
    most = std::clamp<int64_t>(fitting / kernels.lanes * kernels.lanes, kernels.lanes, tile);
  // Sums of many taps leave room for few filters, beside which x is copied more often.
  while (most > tile &&
         filters_beside(p, plan, most, sizeof(Real)) < std::min(group_k, max_filters))
    most -= tile;
  plan.c_block = std::min(most, group_c);
  plan.c_blocks = ceil_div(group_c, plan.c_block);
  if (plan.c_block < group_c)
    plan.c_block = round_up(ceil_div(group_c, plan.c_blocks), std::min(tile, plan.c_block));
  plan.padded = round_up(plan.c_block, kernels.lanes);
}

/// Cuts filters, so that there are tasks for all threads. What few filters take is no more than the
/// copies that they need.
template <class Real>
void cut_filters(const ConvProblem& p, int units, WeightsWidePlan& plan) {
  constexpr int64_t tile = 12, least = 48, room = 16 << 20;
  const int64_t group_k = p.k / p.groups;
  const int64_t of_filter = plan.padded * taps_of(p) * int64_t{sizeof(Real)};
  const int64_t filters = std::max(filters_beside(p, plan, plan.padded, sizeof(Real)),
                                   std::min(tile, std::max<int64_t>(room / of_filter, 1)));
  plan.k_blocks = ceil_div(group_k, filters);
  const int64_t wanted = ceil_div(4 * units, p.groups * plan.c_blocks * plan.sum.parts);
  if (units > 1)
    plan.k_blocks = std::max(plan.k_blocks, std::min(wanted, ceil_div(group_k, least)));
  plan.k_block = ceil_div(group_k, plan.k_blocks);
}

/// Finds the steps from one position to the next, and whether rows and images are one run.
template <class Real>
void line_up(const ConvProblem& p, const WeightsKernels<Real>& kernels, WeightsWidePlan& plan) {
  const WeightsAxes axes = weights_axes(p);
  const WeightsSum& sum = plan.sum;
  const int64_t q = p.q(), tile = std::min(plan.padded, kernels.tile_channels);
  const int64_t image = p.p() * q;
  plan.x_q = plan.in_x ? step_of(p.stride.w, q) * axes.x_w : tile;
  const int64_t columns = plan.by_rows ? step_of(p.stride.w, q) : 1;
  plan.x_step = plan.x_q * columns;
  plan.x_tile = plan.in_x ? tile : sum.images_together * plan.image_planes * tile;
  const bool rows_of_x = plan.in_x
                             ? p.p() == 1 || step_of(p.stride.h, p.p()) * axes.x_h == q * plan.x_q
                             : plan.planes.pitch == q * columns;
  const bool images_of_x =
      plan.in_x ? axes.x_n == image * plan.x_q : plan.image_planes == sum.rows * q * columns;
  plan.flat = dy_in_line(p, plan) && rows_of_x;
  plan.images_in_line = plan.flat && p.z() == 1 && sum.bands_of_image == 1 && images_of_x &&
                        (!plan.dy_in_place || axes.y_n == image * axes.y_q);
}

template <class Real>
void count_bytes(const ConvProblem& p, WeightsWidePlan& plan) {
  constexpr int64_t chunk_limit = 64 << 10, max_chunk = 16;
  constexpr auto real_bytes = int64_t{sizeof(Real)}, index_bytes = int64_t{sizeof(int64_t)};
  const WeightsSum& sum = plan.sum;
  const int64_t taps = taps_of(p), rows = sum.images_together * sum.rows;
  plan.offsets_bytes = padded(taps * index_bytes);
  plan.block_bytes = padded(plan.c_block * taps * real_bytes);
  if (sum.parts > 1)
    plan.parts_bytes = padded(sum.parts * p.k * (p.c / p.groups) * taps * real_bytes);
  if (!plan.in_x) {
    plan.chunk = std::clamp<int64_t>(chunk_limit / (plan.of_channel * real_bytes), 1, max_chunk);
    plan.chunk = std::min(plan.chunk, plan.c_block);
    // Rows are copied in whole vectors.
    if (!plan.by_rows)
      plan.chunk_bytes =
          padded((plan.chunk * plan.of_channel + plan.planes.pitch + 64) * real_bytes);
    plan.planes_bytes = plan.chunk_bytes + padded(round_up(plan.padded, plan.x_q) / plan.x_q *
                                                  plan.x_tile * real_bytes);
  }
  if (!plan.dy_in_place)
    plan.dy_bytes = padded(plan.k_block * gradient_step(rows * p.q()) * real_bytes);
  plan.sums_bytes = padded(plan.k_block * taps * plan.padded * real_bytes);
  plan.starts_bytes = padded(3 * rows * index_bytes);
}

}  // namespace

WeightsSum weights_wide_sum(const ConvProblem& p, int64_t real_bytes) {
  // A filter's gradient of a band and the vectors beside it stay in near caches.
  constexpr int64_t band_positions = 512, part_positions = 2048;
  constexpr double enough_tasks = 64, parts_limit = 16 << 20;
  WeightsSum sum{};
  const int64_t q = p.q(), rows = p.p();
  sum.images = p.n * p.z();
  sum.rows = std::clamp<int64_t>(band_positions / q, 1, rows);
  sum.images_together = 1;
  if (sum.rows == rows)
    sum.images_together =
        std::clamp<int64_t>(band_positions / (rows * q), 1, std::max<int64_t>(sum.images, 1));
  sum.bands_of_image = ceil_div(rows, sum.rows);
  sum.rows = ceil_div(rows, sum.bands_of_image);
  sum.bands = ceil_div(sum.images, sum.images_together) * sum.bands_of_image;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double weights =
      number(p.k) * number(p.c / p.groups) * number(taps_of(p)) * number(real_bytes);
  const double blocks = number(p.groups) * number(ceil_div(p.k / p.groups, 64)) *
                        number(ceil_div(p.c / p.groups, 64));
  // A part of few positions would take as long to be added to the others.
  const double of_some = number(sum.images) * number(rows) * number(q) / part_positions;
  double parts = std::min(std::min(of_some, number(sum.bands)), enough_tasks / blocks);
  parts = std::min(parts, parts_limit / weights);
  sum.parts = std::max<int64_t>(static_cast<int64_t>(parts), 1);
  return sum;
}

double weights_wide_chain(const ConvProblem& p, int64_t real_bytes) {
  if (p.n == 0) return 1;
  const WeightsSum sum = weights_wide_sum(p, real_bytes);
  const int64_t positions = sum.images_together * sum.rows * p.q();
  const auto tree = std::bit_width(static_cast<std::uint64_t>(sum.parts - 1));
  const auto chain = static_cast<double>(positions + ceil_div(sum.bands, sum.parts) + tree);
  return std::min(chain, static_cast<double>(p.terms()));
}

template <class Real>
bool turns_in_x(const ConvProblem& p) {
  const WeightsAxes axes = weights_axes(p);
  return is_own<Real>(p) && p.padding == Padding{} && (axes.x_w == 1 || p.w == 1) &&
         (axes.x_h == p.w || p.h == 1) && step_of(p.stride.w, p.q()) == 1 &&
         step_of(p.stride.h, p.p()) == 1 && p.q() + (p.s - 1) * p.dilation.w == p.w;
}

template <class Real>
WeightsWidePlan plan_channels(const ConvProblem& p, const WeightsKernels<Real>& kernels,
                              const DeviceInfo& device) {
  WeightsWidePlan plan{};
  plan.sum = weights_wide_sum(p, sizeof(Real));
  lay_out(p, kernels, plan);
  cut_channels(p, kernels, plan);
  cut_filters<Real>(p, std::max(device.units, 1), plan);
  line_up(p, kernels, plan);
  count_bytes<Real>(p, plan);
  return plan;
}

template <class Real>
double weights_wide_work(const ConvProblem& p, const WeightsKernels<Real>& kernels,
                         const WeightsWidePlan& plan) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const WeightsSum& sum = plan.sum;
  const int64_t group_k = p.k / p.groups, lanes = kernels.lanes, taps = taps_of(p);
  const double bands = number(p.groups) * number(sum.bands);
  const double positions = number(sum.images_together * sum.rows * p.q());
  const double runs =
      number(plan.images_in_line ? 1 : sum.images_together) * number(plan.flat ? 1 : sum.rows);
  const double vectors = number(round_up(p.c / p.groups, lanes) / lanes);
  // In products of vectors: a run's start, a sum that is added to, an element that is copied.
  constexpr double of_run = 1.2, add = 3;
  const double copy = plan.by_rows ? 1 : 1.6;
  const double tile = vectors >= 2 ? 1.0 : 1.3;
  double band =
      vectors * number(taps) * number(group_k) * (tile * (positions + of_run * runs) + add);
  if (!plan.in_x)
    band += copy * number(sum.images_together * plan.image_planes) * number(p.c / p.groups) *
            number(plan.k_blocks) * (is_own<Real>(p) ? 1 : 3);
  if (!plan.dy_in_place) band += positions * number(group_k * plan.c_blocks);
  const double weights = number(p.k) * number(p.c / p.groups) * number(taps);
  const double finish = (number(sum.parts) * 2 + 1) * weights;
  return (bands * band + finish) * number(lanes);
}

template bool turns_in_x<float>(const ConvProblem&);
template bool turns_in_x<double>(const ConvProblem&);
template WeightsWidePlan plan_channels(const ConvProblem&, const WeightsKernels<float>&,
                                       const DeviceInfo&);
template WeightsWidePlan plan_channels(const ConvProblem&, const WeightsKernels<double>&,
                                       const DeviceInfo&);
template double weights_wide_work(const ConvProblem&, const WeightsKernels<float>&,
                                  const WeightsWidePlan&);
template double weights_wide_work(const ConvProblem&, const WeightsKernels<double>&,
                                  const WeightsWidePlan&);

}  // namespace plumb
