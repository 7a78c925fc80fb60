// Sums over all but the channels: a channel to a task, its rows in order, each in eight sums of
// which every one takes each eighth element. The order depends on nothing but the extents.
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

constexpr int64_t lanes = 8;

template <class Stored>
void add_row(const Stored* x, int64_t step, int64_t count, double (&sums)[lanes]) {
  for (int64_t k = 0; k < count; ++k) sums[k % lanes] += static_cast<double>(widen(x[k * step]));
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
    for (int64_t n = 0; n < extents[0]; ++n)
      for (int64_t d = 0; d < extents[2]; ++d)
        for (int64_t h = 0; h < extents[3]; ++h)
          add_row(x + n * steps[0] + c * steps[1] + d * steps[2] + h * steps[3], steps[4],
                  extents[4], sums);
    double sum =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    Stored& result = y[c * y_step];
    if (launch.accumulate) sum += static_cast<double>(widen(result));
    result = narrow<Stored>(sum);
  });
}

}  // namespace

void cpu_sum_channels(const SumLaunch& launch) {
  with_type(launch.x.dtype(), [&](auto stored) { sum_channels<decltype(stored)>(launch); });
}

}  // namespace plumb
