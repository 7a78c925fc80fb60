// Softmax: y[n,:] = exp(x[n,:] - max x[n,:]) / their sum, a row to a warp, or to a block where rows
// are long.
//
// Tiling: a block of 256 threads takes eight short rows or a long one; the threads of a row go
//   along it side by side.
// Bytes: x is read three times (maximum, sum, result), the second and third time from L1 or L2 for
//   all but very long rows; y is written once.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/nn/row_reduction.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

template <class Index>
struct RowShape {
  Index c;
  Index x_n, x_c, y_n, y_c;  ///< strides

  RowShape(const ConstTensorView& x, const ConstTensorView& y)
      : c(static_cast<Index>(x.extent(1))),
        x_n(step<Index>(x.extents(), x.strides(), 0)),
        x_c(step<Index>(x.extents(), x.strides(), 1)),
        y_n(step<Index>(y.extents(), y.strides(), 0)),
        y_c(step<Index>(y.extents(), y.strides(), 1)) {}
};

template <int row_threads, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    softmax_rows(const __grid_constant__ RowShape<Index> shape, const Stored* x, Stored* y,
                 std::int64_t rows) {
  using Value = ComputeType<Stored>;
  constexpr int block_rows = block_threads / row_threads;
  const Index first = static_cast<Index>(threadIdx.x % row_threads);
  // All threads of a row leave the loop together, so the shuffles and barriers meet all of them.
  for (std::int64_t row = std::int64_t{blockIdx.x} * block_rows + threadIdx.x / row_threads;
       row < rows; row += std::int64_t{gridDim.x} * block_rows) {
    const Stored* from = x + static_cast<Index>(row) * shape.x_n;
    Stored* to = y + static_cast<Index>(row) * shape.y_n;

    Value largest = -infinity<Value>;
    for (Index c = first; c < shape.c; c += row_threads)
      largest = Larger{}(convert<Value>(from[c * shape.x_c]), largest);
    largest = combined<row_threads>(largest, Larger{});

    // The maximum passes over a NaN; the sum has it, and so has every result.
    Value sum = 0;
    for (Index c = first; c < shape.c; c += row_threads)
      sum += exp(convert<Value>(from[c * shape.x_c]) - largest);
    sum = combined<row_threads>(sum, Sum{});

    for (Index c = first; c < shape.c; c += row_threads)
      to[c * shape.y_c] = convert<Stored>(exp(convert<Value>(from[c * shape.x_c]) - largest) / sum);
  }
}

template <int row_threads, class Stored, class Index>
void launch(const ConstTensorView& x, const TensorView& y, void* stream) {
  const std::int64_t rows = x.extent(0);
  Launch(stream, blocks_for(rows, block_threads / row_threads), block_threads)(
      softmax_rows<row_threads, Stored, Index>, RowShape<Index>(x, y),
      static_cast<const Stored*>(x.data()), static_cast<Stored*>(y.data()), rows);
}

}  // namespace

void softmax(const ConstTensorView& x, const TensorView& y, void* stream) {
  const double largest = std::max(
      {reach(x.extents(), x.strides()), reach(y.extents(), y.strides()), count(y.extents())});
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      if (x.extent(1) < long_row)
        launch<warp_threads, Stored, Index>(x, y, stream);
      else
        launch<block_threads, Stored, Index>(x, y, stream);
    });
  });
}

}  // namespace plumb::cuda
