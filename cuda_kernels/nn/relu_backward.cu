// The gradient of the ReLU: dx = dy where y, its output, is above 0, and 0 elsewhere, as where y is
// NaN; dx may be dy.
//
// Tiling: there is none; neighbouring threads are neighbouring elements of dx's rows.
// Bytes: y, dy and dx once.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/element_offsets.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    pass_gradients(const __grid_constant__ ElementOffsets<Index, 3> offsets, const Stored* y,
                   const Stored* dy, Stored* dx, std::int64_t elements) {
  using Value = ComputeType<Stored>;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    const auto [at_y, from, to] = offsets.at(element).of;
    dx[to] = convert<Value>(y[at_y]) > 0 ? dy[from] : convert<Stored>(Value{0});
  }
}

}  // namespace

void relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx,
                   void* stream) {
  const std::int64_t elements = element_count(dx.extents());
  if (elements == 0) return;
  const double largest =
      std::max({reach(y.extents(), y.strides()), reach(dy.extents(), dy.strides()),
                reach(dx.extents(), dx.strides()), static_cast<double>(elements)});
  with_any_stored(dx.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(elements, block_threads), block_threads)(
          pass_gradients<Stored, Index>,
          ElementOffsets<Index, 3>(dx.extents(), {y.strides(), dy.strides(), dx.strides()}),
          static_cast<const Stored*>(y.data()), static_cast<const Stored*>(dy.data()),
          static_cast<Stored*>(dx.data()), elements);
    });
  });
}

}  // namespace plumb::cuda
