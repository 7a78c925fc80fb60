// The oracle is the convolution's definition written as loops, in double. Nothing here is clever,
// so that it can be trusted by reading it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/src/parallel/floating_point.hpp"
#include "core/src/parallel/parallel.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

/// Where the five indices of a tensor lie; a tensor without a depth has four, and c is left out.
double at(const ConstTensorView& t, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
          std::int64_t e) {
  const bool deep = t.rank() == 5;
  const std::int64_t depth = deep ? c * t.stride(2) : 0;
  return load_element(t, a * t.stride(0) + b * t.stride(1) + depth + d * t.stride(deep ? 3 : 2) +
                             e * t.stride(deep ? 4 : 3));
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

/// Computes one output of the convolution, before any pooling.
OracleTerm convolved(const ConvProblem& problem, const ConstTensorView& x, const ConstTensorView& w,
                     const ConstTensorView& bias, std::int64_t n, std::int64_t k, std::int64_t z,
                     std::int64_t p, std::int64_t q) {
  const std::int64_t channels = problem.c / problem.groups;  // channels of one group
  const std::int64_t filters = problem.k / problem.groups;
  const std::int64_t first_channel = k / filters * channels;
  OracleTerm term;
  const auto along = [](Boundary boundary, std::int64_t output, std::int64_t stride,
                        std::int64_t tap, std::int64_t dilation, std::int64_t before,
                        std::int64_t extent) {
    return boundary_index(boundary, output * stride + tap * dilation - before, extent);
  };
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < problem.t; ++t)
      for (std::int64_t r = 0; r < problem.r; ++r)
        for (std::int64_t s = 0; s < problem.s; ++s) {
          const std::int64_t d = along(problem.boundary.d, z, problem.stride.d, t,
                                       problem.dilation.d, problem.padding.front, problem.d);
          const std::int64_t h = along(problem.boundary.h, p, problem.stride.h, r,
                                       problem.dilation.h, problem.padding.top, problem.h);
          const std::int64_t v = along(problem.boundary.w, q, problem.stride.w, s,
                                       problem.dilation.w, problem.padding.left, problem.w);
          if (d < 0 || h < 0 || v < 0) continue;
          const double pixel = at(x, n, first_channel + c, d, h, v);
          const double weight = at(w, k, c, t, r, s);
          term.y += pixel * weight;
          term.magnitude += std::abs(pixel * weight);
          term.x_magnitude += std::abs(pixel);
          term.w_magnitude += std::abs(weight);
        }
  if (!bias.empty()) {
    const double b = load_element(bias, k * bias.stride(0));
    term.y += b;
    term.magnitude += std::abs(b);
  }
  return term;
}

}  // namespace

OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                          const ConstTensorView& w, const ConstTensorView& bias, std::int64_t n,
                          std::int64_t k, std::int64_t z, std::int64_t p, std::int64_t q) {
  const DefaultFloatingPoint mode;
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return convolved(problem, x, w, bias, n, k, z, row, column);
  };
  if (problem.pool == Pool::none) return at(p, q);
  return larger(larger(at(2 * p, 2 * q), at(2 * p, 2 * q + 1)),
                larger(at(2 * p + 1, 2 * q), at(2 * p + 1, 2 * q + 1)));
}

OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                          const ConstTensorView& w, const ConstTensorView& bias, std::int64_t n,
                          std::int64_t k, std::int64_t p, std::int64_t q) {
  return conv_oracle_at(problem, x, w, bias, n, k, 0, p, q);
}

std::vector<OracleTerm> conv_oracle(const ConvProblem& problem, const ConstTensorView& x,
                                    const ConstTensorView& w, const ConstTensorView& bias) {
  const Extents y = problem.y_extents();
  const std::int64_t height = y[y.rank() - 2], width = y[y.rank() - 1];
  std::vector<OracleTerm> terms(static_cast<std::size_t>(element_count(y)));
  const std::int64_t planes = problem.z();
  parallel_for(available_threads(), problem.n * problem.k * planes, [&](std::int64_t i) {
    const std::int64_t n = i / planes / problem.k, k = i / planes % problem.k, z = i % planes;
    for (std::int64_t p = 0; p < height; ++p)
      for (std::int64_t q = 0; q < width; ++q) {
        const std::int64_t index = (i * height + p) * width + q;
        terms[static_cast<std::size_t>(index)] = conv_oracle_at(problem, x, w, bias, n, k, z, p, q);
      }
  });
  return terms;
}

}  // namespace plumb
