// Adds a convolution that lies in workspace to what y holds.
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Sums are formed in float, those of f64 in double.
template <class Stored>
Stored sum_of(Stored a, Stored b, bool relu) {
  const auto sum = widen(a) + widen(b);
  const auto activated = relu && sum < 0 ? decltype(sum){0} : sum;
  return narrow<Stored>(activated);
}

template <class Stored>
void add(const AddLaunch& launch) {
  const Extents& extents = launch.y.extents();
  const Strides &from = launch.x.strides(), &to = launch.y.strides();
  const auto* const x = static_cast<const Stored*>(launch.x.data());
  auto* const y = static_cast<Stored*>(launch.y.data());
  const bool relu = launch.activation == Activation::relu;
  const auto add_run = [&](int64_t count, int64_t x_row, int64_t y_row) {
    for (int64_t k = 0; k < count; ++k) {
      Stored& sum = y[y_row + k * to[4]];
      sum = sum_of(x[x_row + k * from[4]], sum, relu);
    }
  };
  for_each_run(extents, add_run, from, to);
}

}  // namespace

void cpu_add(const AddLaunch& launch) {
  if (element_count(launch.y.extents()) == 0) return;
  with_type(launch.x.dtype(), [&](auto stored) { add<decltype(stored)>(launch); });
}

}  // namespace plumb
