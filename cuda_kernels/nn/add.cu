// Addition: y = activation(x + y), for kernels that do not accumulate.
//
// Tiling: there is none; neighbouring threads are neighbouring elements of y's rows.
// Bytes: x is read, y read and written.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/element_offsets.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Index>
struct AddShape {
  ElementOffsets<Index, 2> offsets;  ///< in x and y
  bool rectify;

  explicit AddShape(const AddLaunch& call)
      : offsets(call.y.extents(), {call.x.strides(), call.y.strides()}),
        rectify(call.activation == Activation::relu) {}
};

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    add_elements(const __grid_constant__ AddShape<Index> shape, const Stored* x, Stored* y,
                 std::int64_t elements) {
  using Value = ComputeType<Stored>;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    const auto [from, to] = shape.offsets.at(element).of;
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
