// Softmax shifts each row by its maximum, so that no exponential overflows.
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Stored>
void softmax_row(const Stored* x, int64_t x_step, Stored* y, int64_t y_step, int64_t count) {
  using T = decltype(widen(Stored{}));
  const auto at = [&](int64_t i) { return widen(x[i * x_step]); };
  T max = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < count; ++i) max = at(i) <= max || max != max ? max : at(i);
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(at(i) - max);
  for (int64_t i = 0; i < count; ++i) y[i * y_step] = narrow<Stored>(std::exp(at(i) - max) / sum);
}

}  // namespace

void cpu_softmax(const ConstTensorView& x, const TensorView& y) {
  with_type(x.dtype(), [&](auto stored) {
    using Stored = decltype(stored);
    const int64_t rows = x.extent(0);
    parallel_for(threads_for(rows * x.extent(1)), rows, [&](int64_t n) {
      softmax_row(static_cast<const Stored*>(x.data()) + n * x.stride(0), x.stride(1),
                  static_cast<Stored*>(y.data()) + n * y.stride(0), y.stride(1), x.extent(1));
    });
  });
}

}  // namespace plumb
