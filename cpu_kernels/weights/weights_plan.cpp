// Bands, blocks and parts of backward weights get their sizes here.
#include "cpu_kernels/weights/weights_plan.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace plumb {
namespace {

using std::int64_t;

/// Returns the stride, or 1 where there is no second output along it.
int64_t step_of(int64_t stride, int64_t outputs) { return outputs > 1 ? stride : 1; }

int64_t taps_of(const ConvProblem& p) { return p.t * p.r * p.s; }

/// Fills in how the planes of a band lie. What they take for one channel is returned, in elements.
int64_t lay_planes(const ConvProblem& p, const WeightsSum& sum, Planes& planes) {
  const int64_t step_h = step_of(p.stride.h, p.p()), step_w = step_of(p.stride.w, p.q());
  const int64_t reach_h = (p.r - 1) * p.dilation.h, reach_w = (p.s - 1) * p.dilation.w;
  planes.row_planes = std::min(step_h, reach_h + 1);
  planes.column_planes = std::min(step_w, reach_w + 1);
  planes.column_step = 1;
  planes.pitch = (p.q() + reach_w / step_w) * sum.side;
  planes.rows = sum.rows + reach_h / step_h;
  planes.plane = round_up(planes.rows * planes.pitch, 16);
  // The padding keeps planes from lying a power of two apart, where they would share one set of a
  // cache.
  if (planes.plane % 256 == 0) planes.plane += 16;
  return p.t * planes.row_planes * planes.column_planes * planes.plane;
}

template <class Real>
bool is_own(const ConvProblem& p) {
  return p.dtype == (sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32);
}

/// Says whether each term of consecutive outputs lies in neighbours of x.
template <class Real>
bool lies_in_x(const ConvProblem& p, const WeightsAxes& axes) {
  return is_own<Real>(p) && p.padding == Padding{} && (axes.x_w == 1 || p.w == 1) &&
         step_of(p.stride.w, p.q()) == 1;
}

/// Returns the time of the positions that are summed for each image of a band, rows one by one or
/// not, in vectors of them. A row's start takes as long as a vector.
double vectors_of(const WeightsPlan& plan, int64_t q, int64_t lanes) {
  constexpr double of_row = 0.9;
  if (plan.flat)
    return of_row +
           static_cast<double>(ceil_div((plan.sum.rows - 1) * plan.planes.pitch + q, lanes));
  return static_cast<double>(plan.sum.rows) * (static_cast<double>(ceil_div(q, lanes)) + of_row);
}

/// Returns the products of vectors that take as long as putting an element beside those of other
/// images. Floats of rows without steps are transposed in registers.
template <class Real>
double cost_of_interleaving(DType dtype, int64_t step) {
  return std::is_same_v<Real, float> && dtype == DType::f32 && step == 1 ? 0.4 : 2;
}

/// Returns the products of vectors that take as long as copying an element of dy.
template <class Real>
double cost_of_copy(const ConvProblem& p, int64_t side = 1) {
  if (side > 1) return cost_of_interleaving<Real>(p.dtype, weights_axes(p).y_q);
  return is_own<Real>(p) && (weights_axes(p).y_q == 1 || p.q() == 1) ? 0.12 : 0.5;
}

/// Returns the products of vectors that `filters` filters take for each vector of positions. A tile
/// of few filters loads more of x for each product. Vectors of images `side` by side lie in a line
/// of cache each, most others in two.
double cost_of_filters(int64_t filters, int64_t tile, int64_t side) {
  const int64_t rest = filters % tile;
  double cost = (side > 1 ? 1.05 : 1.2) * static_cast<double>(filters - rest);
  if (tile > 2 && rest >= 2) cost += 2.6;
  return cost + (rest % 2 != 0 ? 1.8 : 0);
}

/// Chooses between vectors over positions and over filters.
template <class Real>
void choose_vectors(const ConvProblem& p, const WeightsKernels<Real>& kernels, WeightsPlan& plan) {
  const WeightsAxes axes = weights_axes(p);
  const int64_t q = p.q(), lanes = kernels.lanes;
  const bool own = is_own<Real>(p) && (axes.y_q == 1 || q == 1);
  const int64_t terms = plan.c_block * taps_of(p);
  const double copy = cost_of_copy<Real>(p);
  const auto positions = static_cast<double>(plan.sum.rows * q);
  const bool can_be_flat = plan.in_x ? axes.x_h == p.w && step_of(p.stride.h, p.p()) == 1 : true;
  const bool dense = own && axes.y_p == q && plan.planes.pitch == q;
  const auto cost = [&](bool flat) {
    plan.flat = flat;
    const bool in_place = own && (!flat || dense);
    const double copies = in_place ? 0 : copy * positions * static_cast<double>(plan.k_block);
    return cost_of_filters(plan.k_block, kernels.filters, plan.sum.side) *
               vectors_of(plan, q, lanes) * static_cast<double>(terms) +
           copies;
  };
  const double by_rows = cost(false), flat = can_be_flat ? cost(true) : by_rows;
  plan.flat = flat < by_rows;
  const int64_t vectors = ceil_div(plan.k_block, lanes);
  const double by_filters =
      positions * (static_cast<double>(vectors * terms) * (vectors > 1 ? 1.05 : 1.15) +
                   1.0 * static_cast<double>(plan.k_block));
  plan.by_filters = by_filters < std::min(by_rows, flat);
  if (plan.by_filters) plan.flat = can_be_flat && plan.planes.pitch == q;
  plan.dy_in_place = !plan.by_filters && own && (!plan.flat || dense);
  plan.padded = round_up(plan.k_block, lanes);
}

}  // namespace

WeightsAxes weights_axes(const ConvProblem& p) {
  const Strides &x = p.x_strides, &w = p.w_strides, &y = p.y_strides;
  if (!p.has_depth())
    return {x[0], x[1], 0, x[2], x[3], w[0], w[1], 0, w[2], w[3], y[0], y[1], 0, y[2], y[3]};
  return {x[0], x[1], x[2], x[3], x[4], w[0], w[1], w[2], w[3], w[4], y[0], y[1], y[2], y[3], y[4]};
}

namespace {

/// Returns how a problem is summed, with `side` images side by side.
template <class Real>
WeightsSum weights_sum(const ConvProblem& p, int64_t side) {
  // A band has enough positions to make up for adding its sums to those before, and a filter's
  // gradient of them is a chain that is not long. Side by side, fewer rows would be copied again
  // and again for the taps of the next band.
  constexpr int64_t plain_positions = 2048, positions_side_by_side = 512, enough_tasks = 64;
  constexpr int64_t planes_limit = 1 << 20, parts_limit = 16 << 20;
  const int64_t band_positions = side > 1 ? side * positions_side_by_side : plain_positions;
  WeightsSum sum{};
  const int64_t q = p.q() * side, rows = p.p();
  sum.side = side;
  sum.images = ceil_div(p.n, side) * p.z();
  sum.rows = std::clamp<int64_t>(band_positions / q, 1, rows);
  sum.images_together = 1;
  Planes planes{};
  while (sum.rows > 1 && lay_planes(p, sum, planes) * int64_t{sizeof(Real)} > planes_limit)
    sum.rows = ceil_div(sum.rows, 2);
  const int64_t image = lay_planes(p, sum, planes) * int64_t{sizeof(Real)};
  if (sum.rows == rows)
    sum.images_together =
        std::clamp<int64_t>(std::min(band_positions / (rows * q), planes_limit / image), 1,
                            std::max<int64_t>(sum.images, 1));
  sum.bands_of_image = ceil_div(rows, sum.rows);
  sum.rows = ceil_div(rows, sum.bands_of_image);
  sum.bands = ceil_div(sum.images, sum.images_together) * sum.bands_of_image;
  const double weights = static_cast<double>(p.k) * static_cast<double>(p.c / p.groups) *
                         static_cast<double>(taps_of(p)) * sizeof(Real);
  const double blocks = static_cast<double>(p.groups) *
                        static_cast<double>(ceil_div(p.k / p.groups, 64)) *
                        static_cast<double>(ceil_div(p.c / p.groups * taps_of(p), 1024));
  // Parts of a single band would spend as long on being added up.
  const int64_t of_some_bands = std::max(sum.bands / 4, std::min<int64_t>(sum.bands, 8));
  double parts = std::min(static_cast<double>(of_some_bands), enough_tasks / blocks);
  parts = std::min(parts, parts_limit / weights);
  sum.parts = std::max<int64_t>(static_cast<int64_t>(parts), 1);
  return sum;
}

/// Returns the plan with `side` images side by side; more than one are copied so.
template <class Real>
WeightsPlan plan_weights(const ConvProblem& p, const WeightsKernels<Real>& kernels, int64_t side) {
  constexpr int64_t max_filters = 64, sums_limit = 512 << 10, planes_limit = 512 << 10;
  constexpr auto real_bytes = int64_t{sizeof(Real)};
  WeightsPlan plan{};
  plan.sum = weights_sum<Real>(p, side);
  const int64_t group_k = p.k / p.groups, group_c = p.c / p.groups, taps = taps_of(p);
  plan.k_blocks = ceil_div(group_k, max_filters);
  plan.k_block = ceil_div(group_k, plan.k_blocks);
  const int64_t channel = lay_planes(p, plan.sum, plan.planes);
  plan.in_x = side == 1 && lies_in_x<Real>(p, weights_axes(p));
  if (plan.in_x) {
    plan.planes.pitch = weights_axes(p).x_h;
  }
  // Of a block of channels, sums and planes stay in a level-2 cache.
  const auto cut_channels = [&](int64_t max) {
    plan.c_blocks = ceil_div(group_c, std::clamp<int64_t>(max, 1, group_c));
    plan.c_block = ceil_div(group_c, plan.c_blocks);
  };
  int64_t most = sums_limit / (round_up(plan.k_block, kernels.lanes) * taps * real_bytes);
  if (!plan.in_x)
    most = std::min(most, planes_limit / (plan.sum.images_together * channel * real_bytes));
  cut_channels(most);
  if (side == 1) choose_vectors(p, kernels, plan);
  if (!plan.by_filters) {
    cut_channels(std::min(most, sums_limit / (plan.k_block * taps * kernels.lanes * real_bytes)));
  }
  plan.image_planes = plan.c_block * channel;
  const int64_t terms = plan.c_block * taps, images = plan.sum.images_together;
  plan.offsets_bytes = padded(terms * int64_t{sizeof(int64_t)});
  if (plan.sum.parts > 1)
    plan.parts_bytes = padded(plan.sum.parts * p.k * group_c * taps * real_bytes);
  else
    plan.block_bytes = padded(plan.k_block * terms * real_bytes);
  // Whole vectors are copied, and the last are cut short by nothing.
  if (!plan.in_x)
    plan.planes_bytes = padded((images * plan.image_planes + plan.planes.pitch + 32) * real_bytes);
  const int64_t pitch = plan.flat ? plan.planes.pitch : p.q() * side;
  if (plan.by_filters)
    plan.dy_bytes = padded(images * plan.sum.rows * p.q() * plan.padded * real_bytes);
  else if (!plan.dy_in_place)
    plan.dy_bytes =
        padded(plan.k_block * gradient_step(images * plan.sum.rows * pitch) * real_bytes);
  plan.sums_bytes =
      padded(terms * real_bytes * (plan.by_filters ? plan.padded : plan.k_block * kernels.lanes));
  plan.starts_bytes = padded(3 * images * plan.sum.rows * int64_t{sizeof(int64_t)});
  return plan;
}

}  // namespace

template <class Real>
double weights_chain(const ConvProblem& p) {
  if (p.n == 0) return 1;
  constexpr int max_lanes = 64 / sizeof(Real);
  constexpr int lanes_added = std::bit_width(static_cast<unsigned>(max_lanes)) - 1;
  double longest = 1;
  // Which is chosen depends on the instruction set.
  for (int64_t side = 1; side <= max_lanes; side *= 2) {
    const WeightsSum sum = weights_sum<Real>(p, side);
    const int64_t positions = sum.images_together * sum.rows * p.q();
    const auto tree = std::bit_width(static_cast<std::uint64_t>(sum.parts - 1));
    const auto chain =
        static_cast<double>(positions + ceil_div(sum.bands, sum.parts) + lanes_added + tree);
    longest = std::max(longest, chain);
  }
  return std::min(longest, static_cast<double>(p.terms()));
}

template <class Real>
WeightsPlan plan_weights(const ConvProblem& p, const WeightsKernels<Real>& kernels) {
  WeightsPlan one = plan_weights(p, kernels, 1);
  if (p.n < 2) return one;
  WeightsPlan many = plan_weights(p, kernels, kernels.lanes);
  return weights_work(p, kernels, many) < weights_work(p, kernels, one) ? many : one;
}

template <class Real>
WeightsPlan plan_weights_in_segments(const ConvProblem& p, const GradientTree& tree) {
  constexpr int64_t max_filters = 64, sums_limit = 512 << 10, planes_limit = 512 << 10;
  constexpr auto real_bytes = int64_t{sizeof(Real)};
  WeightsPlan plan{};
  WeightsSum& sum = plan.sum;
  const int64_t group_k = p.k / p.groups, group_c = p.c / p.groups, taps = taps_of(p);
  sum.images = tree.planes, sum.rows = tree.rows, sum.images_together = 1;
  while (sum.rows > 1 && lay_planes(p, sum, plan.planes) * real_bytes > planes_limit)
    sum.rows = ceil_div(sum.rows, 2);
  const int64_t channel = lay_planes(p, sum, plan.planes);
  if (sum.rows == tree.rows)
    sum.images_together =
        std::clamp<int64_t>(planes_limit / (channel * real_bytes), 1, tree.planes_together);
  sum.bands_of_image = ceil_div(p.p(), sum.rows);
  sum.bands = ceil_div(sum.images, sum.images_together) * sum.bands_of_image;
  plan.k_blocks = ceil_div(group_k, max_filters);
  plan.k_block = ceil_div(group_k, plan.k_blocks);
  const WeightsAxes axes = weights_axes(p);
  plan.in_x = lies_in_x<Real>(p, axes);
  if (plan.in_x) plan.planes.pitch = axes.x_h;
  int64_t most = sums_limit / (plan.k_block * taps * GradientTree::lanes * real_bytes);
  if (!plan.in_x)
    most = std::min(most, planes_limit / (sum.images_together * channel * real_bytes));
  plan.c_blocks = ceil_div(group_c, std::clamp<int64_t>(most, 1, group_c));
  plan.c_block = ceil_div(group_c, plan.c_blocks);
  plan.padded = plan.k_block;
  plan.dy_in_place = is_own<Real>(p) && (axes.y_q == 1 || p.q() == 1);
  plan.image_planes = plan.c_block * channel;
  const int64_t rows = sum.images_together * sum.rows;
  plan.offsets_bytes = padded(plan.c_block * taps * int64_t{sizeof(int64_t)});
  if (!plan.in_x)
    plan.planes_bytes =
        padded((sum.images_together * plan.image_planes + plan.planes.pitch + 32) * real_bytes);
  if (!plan.dy_in_place)
    plan.dy_bytes = padded(plan.k_block * gradient_step(rows * p.q()) * real_bytes);
  plan.starts_bytes = padded(3 * rows * int64_t{sizeof(int64_t)});
  return plan;
}

template <class Real>
double weights_work(const ConvProblem& p, const WeightsKernels<Real>& kernels,
                    const WeightsPlan& plan) {
  const int64_t taps = taps_of(p), group_c = p.c / p.groups, q = p.q() * plan.sum.side;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double blocks = number(p.groups) * number(plan.k_blocks);
  const double images = number(plan.sum.images) * number(plan.sum.bands_of_image);
  const double positions = number(plan.sum.rows * q);
  // Elements copied, in products of full vectors.
  const int64_t step_w = step_of(p.stride.w, p.q()) * weights_axes(p).x_w;
  const double copy = plan.sum.side > 1 ? cost_of_interleaving<Real>(p.dtype, step_w) : 0.5;
  constexpr double add = 3;
  double band;  // of one block of filters and all channels
  if (plan.by_filters) {
    const int64_t vectors = plan.padded / kernels.lanes;
    band = positions * (number(vectors * group_c * taps) * (vectors > 1 ? 1.05 : 1.15) +
                        number(plan.k_block * plan.c_blocks));
  } else {
    band = cost_of_filters(plan.k_block, kernels.filters, plan.sum.side) *
           vectors_of(plan, q, kernels.lanes) * number(group_c * taps);
    if (!plan.dy_in_place)
      band +=
          cost_of_copy<Real>(p, plan.sum.side) * positions * number(plan.k_block * plan.c_blocks);
  }
  if (!plan.in_x) band += copy * number(plan.image_planes) / number(plan.c_block) * number(group_c);
  band += add * number(group_c * taps) * number(plan.k_block) *
          (plan.by_filters ? 1.0 / number(kernels.lanes) : 1.0) / number(plan.sum.images_together);
  // Sums by filters are turned, each into a line of its own.
  const double finish =
      number(plan.sum.parts) * number(p.k) * number(group_c * taps) * (plan.by_filters ? 6 : 2);
  return (blocks * images * band + finish) * number(kernels.lanes);
}

template double weights_chain<float>(const ConvProblem&);
template double weights_chain<double>(const ConvProblem&);
template WeightsPlan plan_weights(const ConvProblem&, const WeightsKernels<float>&);
template WeightsPlan plan_weights(const ConvProblem&, const WeightsKernels<double>&);
template WeightsPlan plan_weights_in_segments<float>(const ConvProblem&, const GradientTree&);
template WeightsPlan plan_weights_in_segments<double>(const ConvProblem&, const GradientTree&);
template double weights_work(const ConvProblem&, const WeightsKernels<float>&, const WeightsPlan&);
template double weights_work(const ConvProblem&, const WeightsKernels<double>&, const WeightsPlan&);

}  // namespace plumb
