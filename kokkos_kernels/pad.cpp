// Padding: copies images with what their boundaries show around them, one work item an element, for
// kernels that know no boundary.
//
// Tiling: none; neighbouring work items are neighbouring elements of y's rows.
// Bytes: x and y once.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct Pad {
  const Stored* x;
  Stored* y;
  Boundary boundary[3];
  Stored outside;
  std::int64_t extents[5], begin[3], move[3], x_extents[3], x_steps[5], y_steps[5];

  explicit Pad(const PadLaunch& call)
      : x(static_cast<const Stored*>(call.x.data())),
        y(static_cast<Stored*>(call.y.data())),
        boundary{call.boundary.d, call.boundary.h, call.boundary.w},
        outside(convert<Stored>(static_cast<ComputeType<Stored>>(call.outside))),
        begin{call.begin.d, call.begin.h, call.begin.w},
        move{call.step.d, call.step.h, call.step.w} {
    for (int i = 0; i < 5; ++i) {
      extents[i] = call.y.extent(i);
      x_steps[i] = step(call.x.extents(), call.x.strides(), i);
      y_steps[i] = step(call.y.extents(), call.y.strides(), i);
      if (i >= 2) x_extents[i - 2] = call.x.extent(i);
    }
  }

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    std::int64_t from = 0, to = 0;
    bool inside = true;
    for (int i = 4; i >= 0; --i) {
      std::int64_t index = element % extents[i];
      element /= extents[i];
      to += index * y_steps[i];
      if (i >= 2)
        index = at_boundary(boundary[i - 2], begin[i - 2] + index * move[i - 2], x_extents[i - 2]);
      inside = inside && index >= 0;
      from += index * x_steps[i];
    }
    y[to] = inside ? x[from] : outside;
  }
};

}  // namespace

void pad(const PadLaunch& call, const Instance& instance) {
  if (element_count(call.y.extents()) == 0) return;
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.pad", all_elements(space, call.y.extents()), Pad<Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
