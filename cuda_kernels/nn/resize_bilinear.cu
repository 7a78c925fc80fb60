// Bilinear interpolation: y[n,c,p,q] is sampled between four pixels of x, one thread an output.
//
// Tiling: there is none; neighbouring threads are neighbouring outputs in the order N C P Q.
// Bytes: y is written once; x is read once where it is enlarged; neighbours share pixels through
//   L1.
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/between.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Index, class Value>
struct ResizeShape {
  Index h, w;
  Divisor<Index> c, p, q;
  Value scale_h, scale_w;  ///< H/P, W/Q
  ImageSteps<Index> x_step, y_step;

  ResizeShape(const ConstTensorView& x, const ConstTensorView& y)
      : h(static_cast<Index>(x.extent(2))),
        w(static_cast<Index>(x.extent(3))),
        c(y.extent(1)),
        p(y.extent(2)),
        q(y.extent(3)),
        scale_h(static_cast<Value>(x.extent(2)) / static_cast<Value>(y.extent(2))),
        scale_w(static_cast<Value>(x.extent(3)) / static_cast<Value>(y.extent(3))),
        x_step(x.extents(), x.strides()),
        y_step(y.extents(), y.strides()) {}
};

template <class Value>
__device__ Value interpolate(Value low, Value high, Value fraction) {
  return low + rounded_product(fraction, high - low);
}

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    resize(const __grid_constant__ ResizeShape<Index, ComputeType<Stored>> shape, const Stored* x,
           Stored* y, std::int64_t outputs) {
  using Value = ComputeType<Stored>;
  for_each_element<block_threads>(
      outputs, shape.c, shape.p, shape.q, [&](Index n, Index c, Index p, Index q) {
        const Between<Index, Value> row(p, shape.scale_h, shape.h);
        const Between<Index, Value> column(q, shape.scale_w, shape.w);

        const Stored* plane = x + n * shape.x_step.n + c * shape.x_step.c;
        const auto along = [&](Index h) {
          const Stored* pixels = plane + h * shape.x_step.h;
          return interpolate(convert<Value>(pixels[column.low * shape.x_step.w]),
                             convert<Value>(pixels[column.high * shape.x_step.w]), column.fraction);
        };
        y[n * shape.y_step.n + c * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            convert<Stored>(interpolate(along(row.low), along(row.high), row.fraction));
      });
}

}  // namespace

void resize_bilinear(const ConstTensorView& x, const TensorView& y, void* stream) {
  const std::int64_t outputs = element_count(y.extents());
  const double largest = std::max({reach(x.extents(), x.strides()), reach(y.extents(), y.strides()),
                                   count(y.extents()), static_cast<double>(x.extent(2)),
                                   static_cast<double>(x.extent(3))});
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(outputs, block_threads), block_threads)(
          resize<Stored, Index>, ResizeShape<Index, ComputeType<Stored>>(x, y),
          static_cast<const Stored*>(x.data()), static_cast<Stored*>(y.data()), outputs);
    });
  });
}

}  // namespace plumb::cuda
