// Sums over all but the channels: a channel to a task, its elements in order, in 256 chains of
// which every one takes each 256th element, and which are added in halves. Every backend has this
// order, which depends on nothing but the extents (docs/numerics.md).
#include <algorithm>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t lanes = 256;

template <class Stored>
void add_row(const Stored* x, int64_t step, int64_t count, int64_t lane, double (&sums)[lanes]) {
  for (int64_t k = 0; k < count; lane = 0) {
    const int64_t end = std::min(count, k + lanes - lane);
    for (double* sum = sums + lane; k < end; ++k) *sum++ += static_cast<double>(widen(x[k * step]));
  }
}

template <class Stored>
void sum_channels(const SumLaunch& launch) {
  const Extents& extents = launch.x.extents();
  const Strides& steps = launch.x.strides();
  const auto* const x = static_cast<const Stored*>(launch.x.data());
  auto* const y = static_cast<Stored*>(launch.y.data());
  const int64_t y_step = launch.y.stride(0);
  parallel_for(threads_for(element_count(extents)), extents[1], [&](int64_t c) {
    double sums[lanes] = {};
    int64_t element = 0;
    for (int64_t n = 0; n < extents[0]; ++n)
      for (int64_t d = 0; d < extents[2]; ++d)
        for (int64_t h = 0; h < extents[3]; ++h, element += extents[4])
          add_row(x + n * steps[0] + c * steps[1] + d * steps[2] + h * steps[3], steps[4],
                  extents[4], element % lanes, sums);
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    double sum = sums[0];
    Stored& result = y[c * y_step];
    if (launch.accumulate) sum += static_cast<double>(widen(result));
    result = narrowed<true, Stored>(sum);
  });
}

}  // namespace

void cpu_sum_channels(const SumLaunch& launch) {
  with_type(launch.x.dtype(), [&](auto stored) { sum_channels<decltype(stored)>(launch); });
}

}  // namespace plumb
