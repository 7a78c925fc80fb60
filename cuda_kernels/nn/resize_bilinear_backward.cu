// The gradient of bilinear interpolation: a thread sums one element of dx over the elements of dy
// that were sampled from it, in their order.
//
// Tiling: there is none; neighbouring threads are neighbouring elements in the order N C H W.
// Bytes: dx is written once; dy is read once, and again from L1.
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/between.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// One axis of dx: its inputs, and how many outputs were sampled from them.
template <class Index, class Value>
struct SampledAxis {
  Index inputs, outputs;
  Value scale;

  SampledAxis(std::int64_t inputs, std::int64_t outputs)
      : inputs(static_cast<Index>(inputs)),
        outputs(static_cast<Index>(outputs)),
        scale(static_cast<Value>(inputs) / static_cast<Value>(outputs)) {}

  /// The first output that is sampled from `input` or what lies behind it: places grow with
  /// outputs.
  __device__ Index first_from(Index input) const {
    Index low = 0, high = outputs;
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (Between<Index, Value>(middle, scale, inputs).high >= input)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  /// Calls `f(output, weight)` for each output that is sampled from `input`.
  template <class F>
  __device__ void for_each(Index input, const F& f) const {
    for (Index output = first_from(input); output < outputs; ++output) {
      const Between<Index, Value> place(output, scale, inputs);
      if (place.low > input) break;
      if (place.low != input && place.high != input) continue;
      const Value low = 1 - place.fraction;
      f(output, place.low == place.high ? low + place.fraction
                : place.low == input    ? low
                                        : place.fraction);
    }
  }
};

template <class Index, class Value>
struct BackwardShape {
  SampledAxis<Index, Value> rows, columns;
  Divisor<Index> c, h, w;
  ImageSteps<Index> dy_step, dx_step;

  BackwardShape(const ConstTensorView& dy, const ConstTensorView& dx)
      : rows(dx.extent(2), dy.extent(2)),
        columns(dx.extent(3), dy.extent(3)),
        c(dx.extent(1)),
        h(dx.extent(2)),
        w(dx.extent(3)),
        dy_step(dy.extents(), dy.strides()),
        dx_step(dx.extents(), dx.strides()) {}
};

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    resize_backward(const __grid_constant__ BackwardShape<Index, ComputeType<Stored>> shape,
                    const Stored* dy, Stored* dx, std::int64_t elements) {
  using Value = ComputeType<Stored>;
  for_each_element<block_threads>(
      elements, shape.c, shape.h, shape.w, [&](Index n, Index c, Index h, Index w) {
        const Stored* plane = dy + n * shape.dy_step.n + c * shape.dy_step.c;
        Value sum = 0;
        if (shape.columns.outputs > 0)
          shape.rows.for_each(h, [&](Index p, Value down) {
            const Stored* line = plane + p * shape.dy_step.h;
            Value row = 0;
            shape.columns.for_each(w, [&](Index q, Value across) {
              row += rounded_product(across, convert<Value>(line[q * shape.dy_step.w]));
            });
            sum += rounded_product(down, row);
          });
        dx[n * shape.dx_step.n + c * shape.dx_step.c + h * shape.dx_step.h + w * shape.dx_step.w] =
            convert<Stored>(sum);
      });
}

}  // namespace

void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx, void* stream) {
  const std::int64_t elements = element_count(dx.extents());
  const double largest =
      std::max({reach(dx.extents(), dx.strides()), reach(dy.extents(), dy.strides()),
                count(dx.extents()), count(dy.extents())});
  with_any_stored(dx.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(elements, block_threads), block_threads)(
          resize_backward<Stored, Index>, BackwardShape<Index, ComputeType<Stored>>(dy, dx),
          static_cast<const Stored*>(dy.data()), static_cast<Stored*>(dx.data()), elements);
    });
  });
}

}  // namespace plumb::cuda
