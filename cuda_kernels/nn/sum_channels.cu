// Sums over all but the channels, for the gradient of a bias: y[c] = sum of x[n,c,d,h,w].
//
// Tiling: a block a channel, whose threads take each 256th element and whose sums, in double, are
//   added in a tree: the order depends on nothing but the extents, and is every backend's
//   (docs/numerics.md).
// Bytes: x once. Few channels leave most of the device idle.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

struct SumShape {
  std::int64_t channels, depth, rows, columns, elements;  ///< elements of one channel
  std::int64_t step[5], y_step;
  bool accumulates;

  explicit SumShape(const SumLaunch& call)
      : channels(call.x.extent(1)),
        depth(call.x.extent(2)),
        rows(call.x.extent(3)),
        columns(call.x.extent(4)),
        elements(call.x.extent(0) * depth * rows * columns),
        y_step(call.y.stride(0)),
        accumulates(call.accumulate) {
    for (int i = 0; i < 5; ++i) step[i] = call.x.extent(i) > 1 ? call.x.stride(i) : 0;
  }
};

/// A stored value as a double, which holds each of them.
template <class Stored>
__device__ double widened(Stored value) {
  return static_cast<double>(convert<ComputeType<Stored>>(value));
}

/// Rounded once to the stored type, where a zero has no sign. The narrow types go by way of a float
/// that is rounded to odd, which loses nothing that their own rounding looks at.
template <class Stored>
__device__ Stored narrowed(double value) {
  if constexpr (sizeof(Stored) > 2) {
    return static_cast<Stored>(value) + Stored{0};
  } else {
    float odd = __double2float_rz(value);
    if (static_cast<double>(odd) != value && value == value)
      odd = __uint_as_float(__float_as_uint(odd) | 1u);
    return convert<Stored>(convert<float>(convert<Stored>(odd)) + 0.0f);
  }
}

template <class Stored>
__global__ void __launch_bounds__(block_threads)
    sum_of_channels(const __grid_constant__ SumShape shape, const Stored* x, Stored* y) {
  __shared__ double sums[block_threads];
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x) {
    double sum = 0;
    for (std::int64_t element = threadIdx.x; element < shape.elements; element += block_threads) {
      const std::int64_t lines = element / shape.columns, planes = lines / shape.rows;
      sum += widened(x[planes / shape.depth * shape.step[0] + c * shape.step[1] +
                       planes % shape.depth * shape.step[2] + lines % shape.rows * shape.step[3] +
                       element % shape.columns * shape.step[4]]);
    }
    sums[threadIdx.x] = sum;
    for (int half = block_threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) {
      Stored& result = y[c * shape.y_step];
      result = narrowed<Stored>(shape.accumulates ? sums[0] + widened(result) : sums[0]);
    }
    __syncthreads();  // before the next channel's sums
  }
}

}  // namespace

void sum_channels(const SumLaunch& call, void* stream) {
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    Launch(stream, blocks_for(call.x.extent(1), 1), block_threads)(
        sum_of_channels<Stored>, SumShape(call), static_cast<const Stored*>(call.x.data()),
        static_cast<Stored*>(call.y.data()));
  });
}

}  // namespace plumb::cuda
