// The oracle: the convolution's definition written as loops, in double. Nothing here is clever,
// so that it can be trusted by reading it.
#include <cmath>

#include "cpu_reference/element.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

double at(const ConstTensorView& t, std::int64_t i0, std::int64_t i1, std::int64_t i2,
          std::int64_t i3) {
  return element(t.data(), t.dtype(),
                 i0 * t.stride(0) + i1 * t.stride(1) + i2 * t.stride(2) + i3 * t.stride(3));
}

}  // namespace

OracleResult conv_oracle(const ConvProblem& problem, const ConstTensorView& x,
                         const ConstTensorView& w, const ConstTensorView& bias) {
  const std::int64_t channels = problem.c / problem.groups;  // of one group
  const std::int64_t filters = problem.k / problem.groups;
  const std::int64_t height = problem.p(), width = problem.q();
  OracleResult result;
  result.y.resize(static_cast<std::size_t>(element_count(problem.y_extents())));
  result.magnitude.resize(result.y.size());

#pragma omp parallel for collapse(2)
  for (std::int64_t n = 0; n < problem.n; ++n)
    for (std::int64_t k = 0; k < problem.k; ++k)
      for (std::int64_t p = 0; p < height; ++p)
        for (std::int64_t q = 0; q < width; ++q) {
          const std::int64_t first_channel = k / filters * channels;
          double sum = 0, magnitude = 0;
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t r = 0; r < problem.r; ++r)
              for (std::int64_t s = 0; s < problem.s; ++s) {
                const std::int64_t h =
                    p * problem.stride.h + r * problem.dilation.h - problem.padding.top;
                const std::int64_t v =
                    q * problem.stride.w + s * problem.dilation.w - problem.padding.left;
                if (h < 0 || h >= problem.h || v < 0 || v >= problem.w) continue;
                const double product = at(x, n, first_channel + c, h, v) * at(w, k, c, r, s);
                sum += product;
                magnitude += std::abs(product);
              }
          if (!bias.empty()) {
            const double b = element(bias.data(), bias.dtype(), k * bias.stride(0));
            sum += b;
            magnitude += std::abs(b);
          }
          const std::int64_t index = ((n * problem.k + k) * height + p) * width + q;
          result.y[static_cast<std::size_t>(index)] = sum;
          result.magnitude[static_cast<std::size_t>(index)] = magnitude;
        }
  return result;
}

}  // namespace plumb
