// The oracle is the convolution's definition written as loops, in double. Nothing here is clever,
// so that it can be trusted by reading it. The gradients go through the same sum, y[n,k,z,p,q] =
// sum of x w, whole, and take the terms that are theirs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/src/parallel/floating_point.hpp"
#include "core/src/parallel/parallel.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

/// The elements of a tensor of type T at five indices; one without a depth has four, and c is left
/// out. A double holds each.
template <class T>
class Elements {
 public:
  explicit Elements(const ConstTensorView& t)
      : data_(static_cast<const T*>(t.data())),
        a_(t.stride(0)),
        b_(t.stride(1)),
        c_(t.rank() == 5 ? t.stride(2) : 0),
        d_(t.stride(t.rank() - 2)),
        e_(t.stride(t.rank() - 1)) {}

  double operator()(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
                    std::int64_t e) const {
    const T element = data_[a * a_ + b * b_ + c * c_ + d * d_ + e * e_];
    if constexpr (std::is_same_v<T, double>)
      return element;
    else
      return static_cast<double>(static_cast<float>(element));
  }

 private:
  const T* data_;
  std::int64_t a_, b_, c_, d_, e_;
};

/// Calls f with the elements of a tensor, by their type.
template <class F>
auto with_elements(const ConstTensorView& t, const F& f) {
  switch (t.dtype()) {
    case DType::f64: return f(Elements<double>(t));
    case DType::f32: return f(Elements<float>(t));
    case DType::f16: return f(Elements<Half>(t));
    case DType::bf16: break;
  }
  return f(Elements<BFloat16>(t));
}

/// All elements in dense order, unless they are many: each is read often, and a half takes long to
/// read.
std::vector<double> in_double(const ConstTensorView& t) {
  constexpr std::int64_t many = std::int64_t{1} << 20;
  const Extents& extents = t.extents();
  if (element_count(extents) > many) return {};
  const int rank = t.rank();
  const std::int64_t depth = rank == 5 ? extents[2] : 1;
  return with_elements(t, [&](const auto& of) {
    std::vector<double> values;
    for (std::int64_t a = 0; a < extents[0]; ++a)
      for (std::int64_t b = 0; b < extents[1]; ++b)
        for (std::int64_t c = 0; c < depth; ++c)
          for (std::int64_t d = 0; d < extents[rank - 2]; ++d)
            for (std::int64_t e = 0; e < extents[rank - 1]; ++e)
              values.push_back(of(a, b, c, d, e));
    return values;
  });
}

/// Returns the maximum of two outputs, with the bounds of both errors, or NaN where one is NaN.
/// Where one is -Inf, which no finite error turns into the maximum, the other counts alone.
OracleTerm larger(const OracleTerm& a, const OracleTerm& b) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  if (std::isnan(a.y) || b.y == lowest) return a;
  if (std::isnan(b.y) || a.y == lowest) return b;
  return {std::max(a.y, b.y), std::max(a.magnitude, b.magnitude),
          std::max(a.x_magnitude, b.x_magnitude), std::max(a.w_magnitude, b.w_magnitude)};
}

/// Where a tap of an output lies along one axis of the image, or -1.
std::int64_t pixel(Boundary boundary, std::int64_t output, std::int64_t stride, std::int64_t tap,
                   std::int64_t dilation, std::int64_t before, std::int64_t extent) {
  return boundary_index(boundary, output * stride + tap * dilation - before, extent);
}

/// A tap of an output and the pixel that it reads, along one axis.
struct Reading {
  std::int64_t tap, pixel;
};
/// Those of an output, but for taps that read zeros beyond the image.
std::vector<Reading> readings(std::int64_t taps, const auto& pixel_of) {
  std::vector<Reading> all;
  all.reserve(static_cast<std::size_t>(taps));
  for (std::int64_t tap = 0; tap < taps; ++tap)
    if (const std::int64_t at = pixel_of(tap); at >= 0) all.push_back({tap, at});
  return all;
}

void add_term(OracleTerm& term, double a, double b) {
  term.y += a * b;
  term.magnitude += std::abs(a * b);
  term.x_magnitude += std::abs(a);
  term.w_magnitude += std::abs(b);
  ++term.terms;
}

void add_bias(OracleTerm& term, const ConstTensorView& bias, std::int64_t channel) {
  if (bias.empty()) return;
  const double b = load_element(bias, channel * bias.stride(0));
  term.y += b;
  term.magnitude += std::abs(b);
}

/// Computes one output of the convolution, before any pooling.
OracleTerm convolved(const ConvProblem& problem, const auto& x, const auto& w,
                     const ConstTensorView& bias, std::int64_t n, std::int64_t k, std::int64_t z,
                     std::int64_t p, std::int64_t q) {
  const std::int64_t channels = problem.c / problem.groups;  // channels of one group
  const std::int64_t filters = problem.k / problem.groups;
  const std::int64_t first_channel = k / filters * channels;
  const std::vector<Reading> columns = readings(problem.s, [&](std::int64_t s) {
    return pixel(problem.boundary.w, q, problem.stride.w, s, problem.dilation.w,
                 problem.padding.left, problem.w);
  });
  OracleTerm term;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < problem.t; ++t) {
      const std::int64_t d = pixel(problem.boundary.d, z, problem.stride.d, t, problem.dilation.d,
                                   problem.padding.front, problem.d);
      if (d < 0) continue;
      for (std::int64_t r = 0; r < problem.r; ++r) {
        const std::int64_t h = pixel(problem.boundary.h, p, problem.stride.h, r, problem.dilation.h,
                                     problem.padding.top, problem.h);
        if (h < 0) continue;
        for (const auto [s, v] : columns)
          add_term(term, x(n, first_channel + c, d, h, v), w(k, c, t, r, s));
      }
    }
  add_bias(term, bias, k);
  return term;
}

/// An output and a tap of it, along one axis.
struct Reader {
  std::int64_t output, tap;
};
/// Those that read a pixel: of all coordinates at which the boundary shows it, each output whose
/// tap lies there.
std::vector<Reader> readers(std::int64_t pixel, Boundary boundary, std::int64_t extent,
                            std::int64_t outputs, std::int64_t stride, std::int64_t taps,
                            std::int64_t dilation, std::int64_t before) {
  std::vector<Reader> all;
  const std::int64_t end = (outputs - 1) * stride + (taps - 1) * dilation - before + 1;
  const bool once = boundary == Boundary::zeros;
  for (std::int64_t i = once ? pixel : -before; i < (once ? pixel + 1 : end); ++i) {
    if (boundary_index(boundary, i, extent) != pixel) continue;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t first = i + before - tap * dilation;  // of the window
      if (first >= 0 && first % stride == 0 && first / stride < outputs)
        all.push_back({first / stride, tap});
    }
  }
  return all;
}

/// Computes one element of dx: of all outputs and taps those that read it.
OracleTerm data_gradient(const ConvProblem& problem, const auto& dy, const auto& w,
                         const ConstTensorView& bias, std::int64_t n, std::int64_t c,
                         std::int64_t d, std::int64_t h, std::int64_t v) {
  const std::int64_t channels = problem.c / problem.groups, filters = problem.k / problem.groups;
  const std::int64_t first_filter = c / channels * filters;
  const auto planes = readers(d, problem.boundary.d, problem.d, problem.z(), problem.stride.d,
                              problem.t, problem.dilation.d, problem.padding.front);
  const auto rows = readers(h, problem.boundary.h, problem.h, problem.p(), problem.stride.h,
                            problem.r, problem.dilation.h, problem.padding.top);
  const auto columns = readers(v, problem.boundary.w, problem.w, problem.q(), problem.stride.w,
                               problem.s, problem.dilation.w, problem.padding.left);
  OracleTerm term;
  for (const auto [z, t] : planes)
    for (const auto [p, r] : rows)
      for (const auto [q, s] : columns)
        for (std::int64_t k = first_filter; k < first_filter + filters; ++k)
          add_term(term, dy(n, k, z, p, q), w(k, c % channels, t, r, s));
  add_bias(term, bias, c);
  return term;
}

/// Computes one element of dw: of all images and outputs those whose tap reads the image.
OracleTerm weights_gradient(const ConvProblem& problem, const auto& x, const auto& dy,
                            std::int64_t k, std::int64_t c, std::int64_t t, std::int64_t r,
                            std::int64_t s) {
  const std::int64_t channels = problem.c / problem.groups, filters = problem.k / problem.groups;
  const std::int64_t channel = k / filters * channels + c;
  const std::int64_t planes = problem.z(), rows = problem.p(), columns = problem.q();
  OracleTerm term;
  for (std::int64_t n = 0; n < problem.n; ++n)
    for (std::int64_t z = 0; z < planes; ++z) {
      const std::int64_t d = pixel(problem.boundary.d, z, problem.stride.d, t, problem.dilation.d,
                                   problem.padding.front, problem.d);
      if (d < 0) continue;
      for (std::int64_t p = 0; p < rows; ++p) {
        const std::int64_t h = pixel(problem.boundary.h, p, problem.stride.h, r, problem.dilation.h,
                                     problem.padding.top, problem.h);
        if (h < 0) continue;
        for (std::int64_t q = 0; q < columns; ++q) {
          const std::int64_t v = pixel(problem.boundary.w, q, problem.stride.w, s,
                                       problem.dilation.w, problem.padding.left, problem.w);
          if (v >= 0) add_term(term, x(n, channel, d, h, v), dy(n, k, z, p, q));
        }
      }
    }
  return term;
}

/// Computes one element of what the problem asks for.
OracleTerm oracle_at(const ConvProblem& problem, const auto& x, const auto& w,
                     const ConstTensorView& bias, std::int64_t n, std::int64_t k, std::int64_t z,
                     std::int64_t p, std::int64_t q) {
  if (problem.direction == Direction::backward_data)
    return data_gradient(problem, x, w, bias, n, k, z, p, q);
  if (problem.direction == Direction::backward_weights)
    return weights_gradient(problem, x, w, n, k, z, p, q);
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return convolved(problem, x, w, bias, n, k, z, row, column);
  };
  if (problem.pool == Pool::none) return at(p, q);
  return larger(larger(at(2 * p, 2 * q), at(2 * p, 2 * q + 1)),
                larger(at(2 * p + 1, 2 * q), at(2 * p + 1, 2 * q + 1)));
}

}  // namespace

OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                          const ConstTensorView& w, const ConstTensorView& bias, std::int64_t n,
                          std::int64_t k, std::int64_t z, std::int64_t p, std::int64_t q) {
  const DefaultFloatingPoint mode;
  return with_elements(x, [&](const auto& image) {
    return with_elements(w, [&](const auto& filters) {
      return oracle_at(problem, image, filters, bias, n, k, z, p, q);
    });
  });
}

OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                          const ConstTensorView& w, const ConstTensorView& bias, std::int64_t n,
                          std::int64_t k, std::int64_t p, std::int64_t q) {
  return conv_oracle_at(problem, x, w, bias, n, k, 0, p, q);
}

std::vector<OracleTerm> conv_oracle(const ConvProblem& problem, const ConstTensorView& x,
                                    const ConstTensorView& w, const ConstTensorView& bias) {
  const DefaultFloatingPoint mode;
  const std::vector<double> image = in_double(x), filters = in_double(w);
  const ConstTensorView of_x = image.empty() ? x : ConstTensorView(image.data(), x.extents());
  const ConstTensorView of_w = filters.empty() ? w : ConstTensorView(filters.data(), w.extents());
  const Extents y = output_of(problem).extents;
  const std::int64_t channels = y[1], planes = y.rank() == 5 ? y[2] : 1;
  const std::int64_t height = y[y.rank() - 2], width = y[y.rank() - 1];
  std::vector<OracleTerm> terms(static_cast<std::size_t>(element_count(y)));
  parallel_for(available_threads(), y[0] * channels * planes, [&](std::int64_t i) {
    const std::int64_t n = i / planes / channels, k = i / planes % channels, z = i % planes;
    for (std::int64_t p = 0; p < height; ++p)
      for (std::int64_t q = 0; q < width; ++q) {
        const std::int64_t index = (i * height + p) * width + q;
        terms[static_cast<std::size_t>(index)] =
            conv_oracle_at(problem, of_x, of_w, bias, n, k, z, p, q);
      }
  });
  return terms;
}

}  // namespace plumb
