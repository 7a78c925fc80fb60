// The gradient of the ReLU: what follows where its output is above 0, and 0 elsewhere.
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
  const int64_t rows = extents[0] * extents[1] * extents[2] * extents[3], columns = extents[4];
  parallel_for(threads_for(element_count(extents)), rows, [&](int64_t row) {
    const int64_t index[] = {row / extents[3] / extents[2] / extents[1],
                             row / extents[3] / extents[2] % extents[1],
                             row / extents[3] % extents[2], row % extents[3]};
    int64_t y_row = 0, dy_row = 0, dx_row = 0;
    for (int i = 0; i < 4; ++i)
      y_row += index[i] * of_y[i], dy_row += index[i] * from[i], dx_row += index[i] * to[i];
    for (int64_t k = 0; k < columns; ++k) {
      const bool passes = widen(outputs[y_row + k * of_y[4]]) > 0;
      results[dx_row + k * to[4]] = passes ? gradients[dy_row + k * from[4]] : Stored{};
    }
  });
}

}  // namespace

void cpu_relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx) {
  if (element_count(dx.extents()) == 0) return;
  with_type(dx.dtype(), [&](auto stored) { relu_backward<decltype(stored)>(y, dy, dx); });
}

}  // namespace plumb
