// The gradient of the ReLU: dx = dy where y, its output, is above 0, and 0 elsewhere, as where y is
// NaN, one work item an element; dx may be dy.
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
  ElementOffsets<3> offsets;

  ReluBackward(const ConstTensorView& output, const ConstTensorView& from, const TensorView& to)
      : y(static_cast<const Stored*>(output.data())),
        dy(static_cast<const Stored*>(from.data())),
        dx(static_cast<Stored*>(to.data())),
        offsets(to.extents(), {output.strides(), from.strides(), to.strides()}) {}

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    using Value = ComputeType<Stored>;
    const auto [at_y, from, to] = offsets.at(element).of;
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
