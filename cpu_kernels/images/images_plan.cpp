// Bands and blocks get their sizes here, and their work is estimated.
#include "cpu_kernels/images/images_plan.hpp"

#include <algorithm>
#include <utility>

#include "cpu_kernels/conv/micro_kernel.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t slab_limit = 640 << 10;  ///< of a level-2 cache for a band's input

double number(int64_t value) { return static_cast<double>(value); }

/// Returns the bytes of the slab of a channel under `rows` output rows.
template <class Real>
double channel_bytes(const ImagesPlan& plan, int64_t rows) {
  return number(plan.h.slab_count(rows)) * number(plan.w.slab_count(plan.q)) * number(plan.lanes) *
         sizeof(Real);
}

/// Cuts rows into bands whose input fits into a level-2 cache, unless more would be copied again
/// for the next band than is not, and then channels into blocks.
template <class Real>
void cut_bands(const ConvProblem& p, int threads, ImagesPlan& plan) {
  const int64_t halo = (plan.h.taps - 1) * plan.h.slab_dilation() / plan.h.slab_stride();
  const int64_t least = std::clamp<int64_t>(halo, 1, plan.p);
  const int64_t others = ceil_div(std::max<int64_t>(p.n, 1), plan.lanes) * p.groups;
  int64_t bands = std::min(ceil_div(plan.p, least), ceil_div(threads, others));
  const auto rows_of = [&](int64_t count) { return ceil_div(plan.p, count); };
  while (rows_of(bands) > least &&
         number(plan.group_c) * channel_bytes<Real>(plan, rows_of(bands)) > slab_limit)
    ++bands;
  plan.rows = rows_of(bands);
  plan.bands = ceil_div(plan.p, plan.rows);
  const double most = slab_limit / channel_bytes<Real>(plan, plan.rows);
  plan.block =
      most < number(plan.group_c) ? std::max<int64_t>(static_cast<int64_t>(most), 1) : plan.group_c;
  plan.blocks = ceil_div(plan.group_c, plan.block);
  plan.block = ceil_div(plan.group_c, plan.blocks);
}

/// Returns the vector products that take as long as the tiles of `filters` filters, which are
/// counted for the latency of an FMA, and for their loads: vectors of x, weights, and where a tap
/// lies.
template <class Real>
double tiles(const ImagesPlan& plan, const ImagesKernels<Real>& kernels, int64_t filters) {
  constexpr double latency_sums = 8, load = 1.2;
  constexpr double begin = 40;  // of what a tile does beside its terms
  const int64_t most = kernels.outputs(filters);
  double all = 0;
  for (const TapClass& p : plan.p_classes)
    for (const TapClass& q : plan.q_classes) {
      int64_t rows = p.count(), columns = q.count();
      if (columns < most && rows > columns) std::swap(rows, columns);
      const int64_t along = ceil_div(columns, most), outputs = ceil_div(columns, along);
      const double turns =
          std::max({number(filters * outputs), latency_sums, load * number(outputs + filters + 1)});
      const double terms = number(p.taps.count() * q.taps.count()) * number(plan.group_c);
      all += number(rows * along) * (turns * terms + begin * number(plan.blocks));
    }
  return all;
}

/// Returns the products of all images.
template <class Real>
double products(const ConvProblem& p, const ImagesKernels<Real>& kernels, const ImagesPlan& plan) {
  // Vector products that take as long as copying an element: of floats in squares that are turned,
  // and one by one.
  const auto copy = [&](int64_t step) {
    constexpr double turned = 0.5, scattered = 2;
    if (sizeof(Real) != sizeof(float) || step != 1) return scattered;
    return p.dtype == DType::f32 ? turned : 3 * turned;
  };
  double all = 0;
  for (int64_t k = 0; k < plan.group_k;) {
    const int64_t filters = run_filters(plan.group_k - k, kernels.filters);
    all += tiles(plan, kernels, filters);
    k += filters;
  }
  const double outputs = number(plan.group_k) * number(plan.p * plan.q);
  const double inputs = number(plan.group_c) * number(plan.bands * plan.h.slab_count(plan.rows)) *
                        number(plan.w.slab_count(plan.q));
  // Elements are counted with those of all lanes.
  all += number(plan.lanes) *
         (inputs * copy(p.x_strides[3] * plan.w.every) + outputs * copy(p.y_strides[3]));
  return all * number(plan.lanes) * number(p.groups * ceil_div(p.n, plan.lanes));
}

}  // namespace

template <class Real>
ImagesPlan plan_images(const ConvProblem& p, const ImagesKernels<Real>& kernels, int threads) {
  ImagesPlan plan{};
  plan.h = tap_axis(p.r, p.stride.h, p.dilation.h, p.padding.top, p.h, true);
  plan.w = tap_axis(p.s, p.stride.w, p.dilation.w, p.padding.left, p.w, true);
  plan.lanes = kernels.lanes;
  plan.group_c = p.c / p.groups, plan.group_k = p.k / p.groups;
  plan.p = p.p(), plan.q = p.q();
  plan.p_classes = tap_classes(plan.h, plan.p);
  plan.q_classes = tap_classes(plan.w, plan.q);
  if (plan.p_classes.size() > max_tap_classes || plan.q_classes.size() > max_tap_classes)
    return plan;
  cut_bands<Real>(p, threads, plan);
  plan.staged = plan.blocks > 1 ? plan.group_k : std::min<int64_t>(plan.group_k, kernels.filters);
  const double slab = number(plan.block) * channel_bytes<Real>(plan, plan.rows);
  const double sums = number(plan.staged) * number(plan.rows) * number(plan.sums_row());
  if (slab + sums * sizeof(Real) > workspace_limit_bytes) {
    plan.bands = 0;
    return plan;
  }
  plan.row = plan.w.slab_count(plan.q) * plan.lanes;
  plan.channel = plan.row * plan.h.slab_count(plan.rows);
  plan.slab_bytes = padded(plan.block * plan.channel * int64_t{sizeof(Real)});
  plan.bias_bytes = padded(p.k * int64_t{sizeof(Real)});
  plan.sums_bytes = padded(plan.staged * plan.rows * plan.sums_row() * int64_t{sizeof(Real)});
  plan.products = products(p, kernels, plan);
  return plan;
}

template ImagesPlan plan_images(const ConvProblem&, const ImagesKernels<float>&, int);
template ImagesPlan plan_images(const ConvProblem&, const ImagesKernels<double>&, int);

}  // namespace plumb
