// The gradient of the ReLU: dx = dy where y, its output, is above 0, and 0 elsewhere, one work item
// an element; dx may be dy.
//
// Tiling: none; neighbouring work items are neighbouring elements of dx's rows.
// Bytes: y, dy and dx once.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct ReluBackward {
  const Stored *y, *dy;
  Stored* dx;
  std::int64_t extents[5], y_steps[5], dy_steps[5], dx_steps[5];

  ReluBackward(const ConstTensorView& output, const ConstTensorView& from, const TensorView& to)
      : y(static_cast<const Stored*>(output.data())),
        dy(static_cast<const Stored*>(from.data())),
        dx(static_cast<Stored*>(to.data())) {
    for (int i = 0; i < 5; ++i) {
      extents[i] = to.extent(i);
      y_steps[i] = step(output.extents(), output.strides(), i);
      dy_steps[i] = step(from.extents(), from.strides(), i);
      dx_steps[i] = step(to.extents(), to.strides(), i);
    }
  }

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    using Value = ComputeType<Stored>;
    std::int64_t at_y = 0, from = 0, to = 0;
    for (int i = 4; i >= 0; --i) {
      const std::int64_t index = element % extents[i];
      element /= extents[i];
      at_y += index * y_steps[i];
      from += index * dy_steps[i];
      to += index * dx_steps[i];
    }
    dx[to] = convert<Value>(y[at_y]) > 0 ? dy[from] : convert<Stored>(Value{0});
  }
};

}  // namespace

void relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx,
                   const Instance& instance) {
  if (element_count(dx.extents()) == 0) return;
  with_any_stored(dx.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.relu_backward", all_elements(space, dx.extents()),
                           ReluBackward<Stored>(y, dy, dx));
    });
  });
}

}  // namespace plumb::kokkos
