// Bilinear interpolation: y[n,c,p,q] is sampled between four pixels of x, one work item an output.
//
// Tiling: none; neighbouring work items are neighbouring outputs in the order N C P Q.
// Bytes: y once, x once where it is enlarged; neighbours share pixels through caches.
#include "kokkos_kernels/between.hpp"
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Value>
KOKKOS_INLINE_FUNCTION Value interpolate(Value low, Value high, Value fraction) {
  return low + rounded_product(fraction, high - low);
}

template <class Stored>
struct Resize {
  using Value = ComputeType<Stored>;

  std::int64_t h, w, c, p, q;
  Value scale_h, scale_w;  ///< H/P, W/Q
  Steps x_step, y_step;
  const Stored* x;
  Stored* y;

  Resize(const ConstTensorView& from, const TensorView& to)
      : h(from.extent(2)),
        w(from.extent(3)),
        c(to.extent(1)),
        p(to.extent(2)),
        q(to.extent(3)),
        scale_h(static_cast<Value>(h) / static_cast<Value>(p)),
        scale_w(static_cast<Value>(w) / static_cast<Value>(q)),
        x_step(from.extents(), from.strides()),
        y_step(to.extents(), to.strides()),
        x(static_cast<const Stored*>(from.data())),
        y(static_cast<Stored*>(to.data())) {}

  KOKKOS_FUNCTION void operator()(std::int64_t output) const {
    const Place at = place_of(output, c, 1, p, q);
    const Between<Value> row = between(at.h, scale_h, h), column = between(at.w, scale_w, w);
    const Stored* plane = x + x_step.offset(at.n, at.c, 0, 0, 0);
    y[y_step.offset(at.n, at.c, 0, at.h, at.w)] =
        convert<Stored>(interpolate(along(plane + row.low * x_step.h, column),
                                    along(plane + row.high * x_step.h, column), row.fraction));
  }

  KOKKOS_FUNCTION Value along(const Stored* pixels, const Between<Value>& column) const {
    return interpolate(convert<Value>(pixels[column.low * x_step.w]),
                       convert<Value>(pixels[column.high * x_step.w]), column.fraction);
  }
};

}  // namespace

void resize_bilinear(const ConstTensorView& x, const TensorView& y, const Instance& instance) {
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.resize_bilinear", all_elements(space, y.extents()),
                           Resize<Stored>(x, y));
    });
  });
}

}  // namespace plumb::kokkos
