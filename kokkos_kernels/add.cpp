// Addition: y = activation(x + y), one work item an element, for kernels that do not accumulate.
//
// Tiling: none; neighbouring work items are neighbouring elements of y's rows.
// Bytes: x is read, y read and written.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct Add {
  const Stored* x;
  Stored* y;
  bool rectify;
  ElementOffsets<2> offsets;

  explicit Add(const AddLaunch& call)
      : x(static_cast<const Stored*>(call.x.data())),
        y(static_cast<Stored*>(call.y.data())),
        rectify(call.activation == Activation::relu),
        offsets(call.y.extents(), {call.x.strides(), call.y.strides()}) {}

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    using Value = ComputeType<Stored>;
    const auto [from, to] = offsets.at(element).of;
    Value sum = convert<Value>(x[from]) + convert<Value>(y[to]);
    if (rectify && sum < 0) sum = 0;  // this way round, NaN stays NaN
    y[to] = convert<Stored>(sum);
  }
};

}  // namespace

void add(const AddLaunch& call, const Instance& instance) {
  if (element_count(call.y.extents()) == 0) return;
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.add", all_elements(space, call.y.extents()), Add<Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
