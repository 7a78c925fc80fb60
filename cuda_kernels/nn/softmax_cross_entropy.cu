// Softmax with cross-entropy, a row to a warp, or to a block where rows are long; and the mean of
// the losses behind it, by one block in a fixed tree.
//
// Tiling: a block of 256 threads takes eight short rows or a long one; the threads of a row go
//   along it side by side.
// Bytes: the logits are read three times, the second and third time from L1 or L2 for all but very
//   long rows; dlogits is written once.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/nn/row_reduction.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

template <class Value, class Index>
struct LossShape {
  Index c;
  Index x_n, x_c, dx_n, dx_c;  ///< strides
  std::int64_t label_step;
  Value share;

  explicit LossShape(const CrossEntropyLaunch& call)
      : c(static_cast<Index>(call.logits.extent(1))),
        x_n(step<Index>(call.logits.extents(), call.logits.strides(), 0)),
        x_c(step<Index>(call.logits.extents(), call.logits.strides(), 1)),
        dx_n(0),
        dx_c(0),
        label_step(call.label_stride),
        share(static_cast<Value>(call.scale / static_cast<double>(call.logits.extent(0)))) {
    if (call.dlogits.empty()) return;
    dx_n = step<Index>(call.dlogits.extents(), call.dlogits.strides(), 0);
    dx_c = step<Index>(call.dlogits.extents(), call.dlogits.strides(), 1);
  }
};

template <int row_threads, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    cross_entropy_rows(const __grid_constant__ LossShape<ComputeType<Stored>, Index> shape,
                       const Stored* x, const std::int64_t* labels, Stored* dx, double* losses,
                       std::int64_t rows) {
  using Value = ComputeType<Stored>;
  constexpr int block_rows = block_threads / row_threads;
  const Index first = static_cast<Index>(threadIdx.x % row_threads);
  const Value none = static_cast<Value>(NAN);
  // All threads of a row leave the loop together, so the shuffles and barriers meet all of them.
  for (std::int64_t row = std::int64_t{blockIdx.x} * block_rows + threadIdx.x / row_threads;
       row < rows; row += std::int64_t{gridDim.x} * block_rows) {
    const Stored* from = x + static_cast<Index>(row) * shape.x_n;
    const std::int64_t label = labels[row * shape.label_step];
    const bool is_class = label >= 0 && label < shape.c;
    // Read before the reductions, behind which dx may be written over x.
    const Value own = is_class ? convert<Value>(from[static_cast<Index>(label) * shape.x_c]) : none;

    Value largest = -infinity<Value>;
    for (Index c = first; c < shape.c; c += row_threads)
      largest = Larger{}(convert<Value>(from[c * shape.x_c]), largest);
    largest = combined<row_threads>(largest, Larger{});

    // The maximum passes over a NaN; the sum has it, and so has every result.
    Value sum = 0;
    for (Index c = first; c < shape.c; c += row_threads)
      sum += exp(convert<Value>(from[c * shape.x_c]) - largest);
    sum = combined<row_threads>(sum, Sum{});

    if (losses && first == 0) losses[row] = static_cast<double>(log(sum) + (largest - own));
    if (!dx) continue;
    for (Index c = first; c < shape.c; c += row_threads) {
      Value probability =
          is_class ? exp(convert<Value>(from[c * shape.x_c]) - largest) / sum : none;
      if (c == label) probability -= 1;
      dx[static_cast<Index>(row) * shape.dx_n + c * shape.dx_c] =
          convert<Stored>(probability * shape.share);
    }
  }
}

template <class Stored>
__global__ void __launch_bounds__(block_threads)
    mean_loss(const double* losses, std::int64_t rows, Stored* loss) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += block_threads) sum += losses[row];
  sum = combined<block_threads>(sum, Sum{});
  if (threadIdx.x == 0)
    *loss = convert<Stored>(static_cast<ComputeType<Stored>>(sum / static_cast<double>(rows)));
}

template <int row_threads, class Stored, class Index>
void launch(const CrossEntropyLaunch& call, void* stream) {
  const std::int64_t rows = call.logits.extent(0);
  Launch(stream, blocks_for(rows, block_threads / row_threads), block_threads)(
      cross_entropy_rows<row_threads, Stored, Index>, LossShape<ComputeType<Stored>, Index>(call),
      static_cast<const Stored*>(call.logits.data()), call.labels,
      static_cast<Stored*>(call.dlogits.data()), call.losses, rows);
}

void launch_rows(const CrossEntropyLaunch& call, void* stream) {
  const Extents& extents = call.logits.extents();
  double largest = std::max(reach(extents, call.logits.strides()), count(extents));
  if (!call.dlogits.empty()) largest = std::max(largest, reach(extents, call.dlogits.strides()));
  with_any_stored(call.logits.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      if (extents[1] < long_row)
        launch<warp_threads, Stored, Index>(call, stream);
      else
        launch<block_threads, Stored, Index>(call, stream);
    });
  });
}

}  // namespace

void softmax_cross_entropy(const CrossEntropyLaunch& call, void* stream) {
  const std::int64_t rows = call.logits.extent(0);
  if (rows > 0) launch_rows(call, stream);
  if (call.loss.empty()) return;
  with_any_stored(call.loss.dtype(), [&]<class Stored>(Stored) {
    Launch(stream, 1, block_threads)(mean_loss<Stored>, static_cast<const double*>(call.losses),
                                     rows, static_cast<Stored*>(call.loss.data()));
  });
}

}  // namespace plumb::cuda
