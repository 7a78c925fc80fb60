// Addition: y = activation(x + y), for kernels that do not accumulate.
//
// Tiling: there is none; neighbouring threads are neighbouring elements of y's rows.
// Bytes: x is read, y read and written.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Index>
struct AddShape {
  Divisor<Index> inner[4];  ///< extents behind the first
  Index x_step[5], y_step[5];
  bool rectify;

  explicit AddShape(const AddLaunch& call) : rectify(call.activation == Activation::relu) {
    for (int i = 0; i < 5; ++i) {
      if (i > 0) inner[i - 1] = Divisor<Index>(call.y.extent(i));
      x_step[i] = step<Index>(call.x.extents(), call.x.strides(), i);
      y_step[i] = step<Index>(call.y.extents(), call.y.strides(), i);
    }
  }
};

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    add_elements(const __grid_constant__ AddShape<Index> shape, const Stored* x, Stored* y,
                 std::int64_t elements) {
  using Value = ComputeType<Stored>;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    Index rest = static_cast<Index>(element), from = 0, to = 0;
#pragma unroll
    for (int i = 4; i > 0; --i) {
      const auto [outer, index] = shape.inner[i - 1].divide(rest);
      from += index * shape.x_step[i];
      to += index * shape.y_step[i];
      rest = outer;
    }
    from += rest * shape.x_step[0];
    to += rest * shape.y_step[0];
    const Value sum = convert<Value>(x[from]) + convert<Value>(y[to]);
    // This way round, NaN stays NaN.
    y[to] = convert<Stored>(shape.rectify && sum < 0 ? Value{0} : sum);
  }
}

}  // namespace

void add(const AddLaunch& call, void* stream) {
  const std::int64_t elements = element_count(call.y.extents());
  if (elements == 0) return;
  const double largest =
      std::max({reach(call.x.extents(), call.x.strides()),
                reach(call.y.extents(), call.y.strides()), static_cast<double>(elements)});
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(elements, block_threads), block_threads)(
          add_elements<Stored, Index>, AddShape<Index>(call),
          static_cast<const Stored*>(call.x.data()), static_cast<Stored*>(call.y.data()), elements);
    });
  });
}

}  // namespace plumb::cuda
