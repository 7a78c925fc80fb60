// The gradient of bilinear interpolation, one work item an element of dx: it sums over the elements
// of dy that were sampled from it, in their order.
//
// Tiling: none; neighbouring work items are neighbouring elements in the order N C H W.
// Bytes: dx once; dy once, and again from caches.
#include "kokkos_kernels/between.hpp"
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

/// One axis of dx: its inputs, and how many outputs were sampled from them.
template <class Value>
struct SampledAxis {
  std::int64_t inputs, outputs;
  Value scale;

  SampledAxis(std::int64_t inputs_, std::int64_t outputs_)
      : inputs(inputs_),
        outputs(outputs_),
        scale(static_cast<Value>(inputs_) / static_cast<Value>(outputs_)) {}

  /// The first output that is sampled from `input` or what lies behind it: places grow with
  /// outputs.
  KOKKOS_INLINE_FUNCTION std::int64_t first_from(std::int64_t input) const {
    std::int64_t low = 0, high = outputs;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (between(middle, scale, inputs).high >= input)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  /// Calls `f(output, weight)` for each output that is sampled from `input`.
  template <class F>
  KOKKOS_INLINE_FUNCTION void for_each(std::int64_t input, const F& f) const {
    for (std::int64_t output = first_from(input); output < outputs; ++output) {
      const Between<Value> place = between(output, scale, inputs);
      if (place.low > input) break;
      if (place.low != input && place.high != input) continue;
      const Value low = 1 - place.fraction;
      f(output, place.low == place.high ? low + place.fraction
                : place.low == input    ? low
                                        : place.fraction);
    }
  }
};

template <class Stored>
struct ResizeBackward {
  using Value = ComputeType<Stored>;

  SampledAxis<Value> rows, columns;
  std::int64_t c;
  Steps dy_step, dx_step;
  const Stored* dy;
  Stored* dx;

  ResizeBackward(const ConstTensorView& from, const TensorView& to)
      : rows(to.extent(2), from.extent(2)),
        columns(to.extent(3), from.extent(3)),
        c(to.extent(1)),
        dy_step(from.extents(), from.strides()),
        dx_step(to.extents(), to.strides()),
        dy(static_cast<const Stored*>(from.data())),
        dx(static_cast<Stored*>(to.data())) {}

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    const Place at = place_of(element, c, 1, rows.inputs, columns.inputs);
    Value sum = 0;
    if (columns.outputs > 0)
      rows.for_each(at.h, [&](std::int64_t p, Value down) {
        const Stored* line = dy + dy_step.offset(at.n, at.c, 0, p, 0);
        Value row = 0;
        columns.for_each(at.w, [&](std::int64_t q, Value across) {
          row += rounded_product(across, convert<Value>(line[q * dy_step.w]));
        });
        sum += rounded_product(down, row);
      });
    dx[dx_step.offset(at.n, at.c, 0, at.h, at.w)] = convert<Stored>(sum);
  }
};

}  // namespace

void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx,
                              const Instance& instance) {
  with_any_stored(dx.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.resize_bilinear_backward", all_elements(space, dx.extents()),
                           ResizeBackward<Stored>(dy, dx));
    });
  });
}

}  // namespace plumb::kokkos
