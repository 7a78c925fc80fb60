// The gradient of the ReLU: what follows where its output is above 0, and 0 elsewhere; a NaN is not
// above 0.
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Stored>
void relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx) {
  const Extents& extents = dx.extents();
  const Strides &of_y = y.strides(), &from = dy.strides(), &to = dx.strides();
  const auto* const outputs = static_cast<const Stored*>(y.data());
  const auto* const gradients = static_cast<const Stored*>(dy.data());
  auto* const results = static_cast<Stored*>(dx.data());
  const auto pass_run = [&](int64_t count, int64_t y_row, int64_t dy_row, int64_t dx_row) {
    for (int64_t k = 0; k < count; ++k) {
      const bool passes = widen(outputs[y_row + k * of_y[4]]) > 0;
      const Stored gradient = gradients[dy_row + k * from[4]];
      results[dx_row + k * to[4]] = passes ? gradient : Stored{};
    }
  };
  for_each_run(extents, pass_run, of_y, from, to);
}

}  // namespace

void cpu_relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx) {
  if (element_count(dx.extents()) == 0) return;
  with_type(dx.dtype(), [&](auto stored) { relu_backward<decltype(stored)>(y, dy, dx); });
}

}  // namespace plumb
