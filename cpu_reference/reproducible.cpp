// What a reproducible convolution is, written as loops over std::fma: docs/numerics.md says the
// same in words. It uses nothing that the kernels use, and nothing here is clever, so that it can
// be trusted by reading it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/src/parallel/floating_point.hpp"
#include "core/src/parallel/parallel.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Where the five indices of a tensor lie; a tensor without a depth has four, and c is left out.
int64_t offset_of(const ConstTensorView& t, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  const bool deep = t.rank() == 5;
  return a * t.stride(0) + b * t.stride(1) + (deep ? c * t.stride(2) : 0) +
         d * t.stride(deep ? 3 : 2) + e * t.stride(deep ? 4 : 3);
}
double at(const ConstTensorView& t, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return load_element(t, offset_of(t, a, b, c, d, e));
}

/// The float below `value` in magnitude, with its last bit set where that is another number:
/// rounded to a type of fewer digits it gives what rounding `value` itself would.
double rounded_to_odd(double value) {
  float towards_zero = static_cast<float>(value);
  if (std::abs(static_cast<double>(towards_zero)) > std::abs(value))
    towards_zero = std::nextafter(towards_zero, 0.0f);
  if (static_cast<double>(towards_zero) == value || std::isnan(value))
    return static_cast<double>(towards_zero);
  return static_cast<double>(
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(towards_zero) | std::uint32_t{1}));
}

/// Rounds once to the stored type. A zero loses its sign.
double stored(DType dtype, double value) {
  if (dtype == DType::f16 || dtype == DType::bf16) value = rounded_to_odd(value);
  double memory = 0;
  const TensorView element(&memory, dtype, {1});
  store_element(element, 0, value);
  const double rounded = load_element(element, 0);
  return rounded == 0 ? 0.0 : rounded;
}

/// The maximum of two outputs, or NaN where one is.
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return std::max(a, b);
}

/// Sums in Real: double where the tensors are f64 or fp64 is asked for, otherwise float.
template <class Real>
class Plain {
 public:
  Plain(const ConvProblem& problem, const ConvOptions& options, const ConvTensors& tensors)
      : p_(problem),
        options_(options),
        t_(tensors),
        planes_(problem.z()),
        rows_(problem.p()),
        columns_(problem.q()) {}

  double output(int64_t n, int64_t k, int64_t z, int64_t p, int64_t q) const {
    const auto one = [&](int64_t row, int64_t column) {
      const Real sum = forward(n, k, z, row, column);
      return finished(sum, k, offset_of(t_.y, n, k, z, p, q));  // not accumulated where it pools
    };
    if (p_.pool == Pool::none) return one(p, q);
    return larger(larger(one(2 * p, 2 * q), one(2 * p, 2 * q + 1)),
                  larger(one(2 * p + 1, 2 * q), one(2 * p + 1, 2 * q + 1)));
  }

  /// Backward data: the gradient of the image with what its boundaries show around it, folded.
  double data_gradient(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const int64_t offset = offset_of(t_.y, n, c, d, h, w);
    if (p_.boundary == Boundaries{}) return finished(of_pixel(n, c, d, h, w), c, offset);
    double value = folded_planes(n, c, d, h, w);
    if (!t_.bias.empty()) value = added(value, load_element(t_.bias, c * t_.bias.stride(0)));
    if (options_.accumulate) value = added(value, load_element(t_.y, offset));
    return activated(value);
  }

  /// Backward weights: a tree of segments, each of sixteen chains.
  double weights_gradient(int64_t k, int64_t c, int64_t t, int64_t r, int64_t s) const {
    const Tap tap{k, c, t, r, s};
    const Segments segments(p_);
    const Real sum = segments.count > 0 ? tree(segments, tap, 0, segments.count) : Real{0};
    return finished(sum, -1, offset_of(t_.y, k, c, t, r, s));
  }

  /// The bias's gradient: 256 chains in double, added in halves.
  double bias_gradient(int64_t k) const {
    constexpr int64_t lanes = 256;
    double sums[lanes] = {};
    int64_t element = 0;
    for (int64_t n = 0; n < p_.n; ++n)
      for (int64_t z = 0; z < planes_; ++z)
        for (int64_t p = 0; p < rows_; ++p)
          for (int64_t q = 0; q < columns_; ++q) sums[element++ % lanes] += dy(t_.w, n, k, z, p, q);
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    double sum = sums[0];
    if (options_.accumulate) sum += load_element(t_.db, k * t_.db.stride(0));
    return stored(p_.dtype, sum);
  }

 private:
  struct Tap {
    int64_t k, c, t, r, s;
  };

  /// The segments of a sum over n, z, p, q. Of some whole planes where these have few positions,
  /// otherwise of some rows of a plane.
  struct Segments {
    explicit Segments(const ConvProblem& problem) {
      constexpr int64_t positions = 4096;
      const int64_t planes = problem.n * problem.z();
      const int64_t most = std::max<int64_t>(positions / problem.q(), 1);
      if (problem.p() <= most) {
        planes_together = most / problem.p();
        count = (planes + planes_together - 1) / planes_together;
        rows = problem.p();
        return;
      }
      const int64_t parts = (problem.p() + most - 1) / most;
      rows = (problem.p() + parts - 1) / parts;
      of_plane = (problem.p() + rows - 1) / rows;
      count = planes * of_plane;
    }
    int64_t planes_together = 1, of_plane = 1, rows = 1, count = 0;
  };

  double dy(const ConstTensorView& gradient, int64_t n, int64_t k, int64_t z, int64_t p,
            int64_t q) const {
    if (options_.relu_mask && !(at(t_.mask, n, k, z, p, q) > 0)) return 0;
    return at(gradient, n, k, z, p, q);
  }

  double activated(double value) const {
    return options_.activation == Activation::relu && value < 0 ? 0 : value;
  }

  /// The bias, what the output holds, the activation, and one rounding, in this order.
  double finished(Real sum, int64_t channel, int64_t offset) const {
    if (channel >= 0 && !t_.bias.empty())
      sum += static_cast<Real>(load_element(t_.bias, channel * t_.bias.stride(0)));
    if (options_.accumulate) sum += static_cast<Real>(load_element(t_.y, offset));
    return stored(p_.dtype, activated(static_cast<double>(sum)));
  }

  /// A sum of two stored values, rounded to the stored type; of float where double is not stored.
  double added(double a, double b) const {
    if (p_.dtype == DType::f64) return stored(p_.dtype, a + b);
    return stored(p_.dtype, static_cast<double>(static_cast<float>(a) + static_cast<float>(b)));
  }

  static Real fma(double a, double b, Real sum) {
    return std::fma(static_cast<Real>(a), static_cast<Real>(b), sum);
  }

  /// Where a tap of an output lies along one axis of the image, or -1.
  static int64_t pixel(Boundary boundary, int64_t output, int64_t stride, int64_t tap,
                       int64_t dilation, int64_t before, int64_t extent) {
    return boundary_index(boundary, output * stride + tap * dilation - before, extent);
  }
  int64_t plane(int64_t z, int64_t t) const {
    return pixel(p_.boundary.d, z, p_.stride.d, t, p_.dilation.d, p_.padding.front, p_.d);
  }
  int64_t row(int64_t p, int64_t r) const {
    return pixel(p_.boundary.h, p, p_.stride.h, r, p_.dilation.h, p_.padding.top, p_.h);
  }
  int64_t column(int64_t q, int64_t s) const {
    return pixel(p_.boundary.w, q, p_.stride.w, s, p_.dilation.w, p_.padding.left, p_.w);
  }

  Real forward(int64_t n, int64_t k, int64_t z, int64_t p, int64_t q) const {
    const int64_t channels = p_.c / p_.groups, first = k / (p_.k / p_.groups) * channels;
    Real sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < p_.t; ++t) {
        const int64_t d = plane(z, t);
        if (d < 0) continue;
        for (int64_t r = 0; r < p_.r; ++r) {
          const int64_t h = row(p, r);
          if (h < 0) continue;
          for (int64_t s = 0; s < p_.s; ++s) {
            const int64_t w = column(q, s);
            if (w >= 0) sum = fma(at(t_.x, n, first + c, d, h, w), at(t_.w, k, c, t, r, s), sum);
          }
        }
      }
    return sum;
  }

  /// The output along one axis whose tap reads this coordinate, or -1. What a boundary shows has
  /// coordinates from -before on.
  static int64_t reader(int64_t coordinate, int64_t tap, int64_t dilation, int64_t before,
                        int64_t stride, int64_t outputs) {
    const int64_t first = coordinate + before - tap * dilation;
    return first >= 0 && first % stride == 0 && first / stride < outputs ? first / stride : -1;
  }

  /// The gradient by one pixel, which may lie beyond the image: over k, then over the outputs that
  /// read it, z p q rising, which is t r s falling.
  Real of_pixel(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const int64_t channels = p_.c / p_.groups, filters = p_.k / p_.groups;
    const int64_t first = c / channels * filters;
    Real sum = 0;
    for (int64_t k = first; k < first + filters; ++k)
      for (int64_t t = p_.t - 1; t >= 0; --t) {
        const int64_t z = reader(d, t, p_.dilation.d, p_.padding.front, p_.stride.d, planes_);
        if (z < 0) continue;
        for (int64_t r = p_.r - 1; r >= 0; --r) {
          const int64_t p = reader(h, r, p_.dilation.h, p_.padding.top, p_.stride.h, rows_);
          if (p < 0) continue;
          for (int64_t s = p_.s - 1; s >= 0; --s) {
            const int64_t q = reader(w, s, p_.dilation.w, p_.padding.left, p_.stride.w, columns_);
            if (q >= 0) sum = fma(dy(t_.x, n, k, z, p, q), at(t_.w, k, c % channels, t, r, s), sum);
          }
        }
      }
    return sum;
  }

  /// Adds to the value at `index` those that the boundary shows there, each in the order outwards
  /// from the edge, first those before the image.
  template <class Value>
  double folded(Boundary boundary, int64_t index, int64_t extent, int64_t before, int64_t after,
                const Value& value) const {
    double sum = value(index);
    if (boundary == Boundary::zeros) return sum;
    for (int64_t i = -1; i >= -before; --i)
      if (boundary_index(boundary, i, extent) == index) sum = added(sum, value(i));
    for (int64_t i = extent; i < extent + after; ++i)
      if (boundary_index(boundary, i, extent) == index) sum = added(sum, value(i));
    return sum;
  }
  double folded_columns(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const Padding& pad = p_.padding;
    return folded(p_.boundary.w, w, p_.w, pad.left, pad.right, [&](int64_t i) {
      return stored(p_.dtype, static_cast<double>(of_pixel(n, c, d, h, i)));
    });
  }
  double folded_rows(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const Padding& pad = p_.padding;
    return folded(p_.boundary.h, h, p_.h, pad.top, pad.bottom,
                  [&](int64_t i) { return folded_columns(n, c, d, i, w); });
  }
  double folded_planes(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const Padding& pad = p_.padding;
    return folded(p_.boundary.d, d, p_.d, pad.front, pad.back,
                  [&](int64_t i) { return folded_rows(n, c, i, h, w); });
  }

  /// Of segments [begin, end): split at the largest power of two that leaves some behind it.
  Real tree(const Segments& segments, const Tap& tap, int64_t begin, int64_t end) const {
    if (end - begin == 1) return segment(segments, tap, begin);
    const auto less = static_cast<std::uint64_t>(end - begin - 1);
    const int64_t middle = begin + static_cast<int64_t>(std::bit_floor(less));
    return tree(segments, tap, begin, middle) + tree(segments, tap, middle, end);
  }

  /// Sixteen chains, of which each has each sixteenth column, over the rows of a segment; then they
  /// are added in halves.
  Real segment(const Segments& segments, const Tap& tap, int64_t index) const {
    constexpr int64_t lanes = 16;
    Real sums[lanes] = {};
    const int64_t channels = p_.c / p_.groups;
    const int64_t channel = tap.k / (p_.k / p_.groups) * channels + tap.c;
    const int64_t first_plane = index / segments.of_plane * segments.planes_together;
    const int64_t end = std::min(first_plane + segments.planes_together, p_.n * planes_);
    const int64_t first_row = index % segments.of_plane * segments.rows;
    for (int64_t i = first_plane; i < end; ++i)
      for (int64_t p = first_row; p < std::min(first_row + segments.rows, rows_); ++p) {
        const int64_t n = i / planes_, z = i % planes_, d = plane(z, tap.t), h = row(p, tap.r);
        if (d < 0 || h < 0) continue;
        for (int64_t q = 0; q < columns_; ++q) {
          const int64_t w = column(q, tap.s);
          if (w < 0) continue;
          sums[q % lanes] =
              fma(at(t_.x, n, channel, d, h, w), dy(t_.w, n, tap.k, z, p, q), sums[q % lanes]);
        }
      }
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }

  const ConvProblem& p_;
  const ConvOptions& options_;
  const ConvTensors& t_;
  int64_t planes_, rows_, columns_;  ///< of y without pooling, or of dy
};

bool sums_in_double(const ConvProblem& problem, const ConvOptions& options) {
  return problem.dtype == DType::f64 || options.math == Math::fp64;
}

template <class Real>
double element(const ConvProblem& problem, const ConvOptions& options, const ConvTensors& tensors,
               int64_t n, int64_t k, int64_t z, int64_t p, int64_t q) {
  const Plain<Real> plain(problem, options, tensors);
  switch (problem.direction) {
    case Direction::backward_data: return plain.data_gradient(n, k, z, p, q);
    case Direction::backward_weights: return plain.weights_gradient(n, k, z, p, q);
    case Direction::forward: break;
  }
  return plain.output(n, k, z, p, q);
}

}  // namespace

double reproducible_at(const ConvProblem& problem, const ConvOptions& options,
                       const ConvTensors& tensors, int64_t n, int64_t k, int64_t z, int64_t p,
                       int64_t q) {
  const DefaultFloatingPoint mode;
  return sums_in_double(problem, options)
             ? element<double>(problem, options, tensors, n, k, z, p, q)
             : element<float>(problem, options, tensors, n, k, z, p, q);
}

double reproducible_bias_gradient_at(const ConvProblem& problem, const ConvOptions& options,
                                     const ConvTensors& tensors, int64_t k) {
  const DefaultFloatingPoint mode;
  return Plain<double>(problem, options, tensors).bias_gradient(k);
}

void reproducible_conv(const ConvProblem& problem, const ConvOptions& options,
                       const ConvTensors& tensors) {
  const Extents y = output_of(problem).extents;
  const int64_t planes = y.rank() == 5 ? y[2] : 1;
  const int64_t rows = y[y.rank() - 2], columns = y[y.rank() - 1];
  parallel_for(available_threads(), y[0] * y[1] * planes, [&](int64_t i) {
    const int64_t n = i / planes / y[1], k = i / planes % y[1], z = i % planes;
    for (int64_t p = 0; p < rows; ++p)
      for (int64_t q = 0; q < columns; ++q)
        store_element(tensors.y, offset_of(tensors.y, n, k, z, p, q),
                      reproducible_at(problem, options, tensors, n, k, z, p, q));
  });
  if (tensors.db.empty()) return;
  for (int64_t k = 0; k < problem.k; ++k)
    store_element(tensors.db, k * tensors.db.stride(0),
                  reproducible_bias_gradient_at(problem, options, tensors, k));
}

}  // namespace plumb
