// Sums over all but the channels, for the gradient of a bias: y[c] = sum of x[n,c,d,h,w].
//
// Tiling: a block a channel, whose threads take each 256th element and whose sums, in double, are
//   added in a tree: the order depends on nothing but the extents, and is every backend's
//   (docs/numerics.md). A thread has 16 loads under way, since few channels are few blocks.
// Bytes: x once. Few channels leave most of the device idle.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256, loads_ahead = 16;

template <class Index>
struct SumShape {
  Divisor<Index> depth, rows, columns;
  Index elements;  ///< of one channel
  std::int64_t channels, step[5], y_step;
  bool accumulates;

  explicit SumShape(const SumLaunch& call)
      : depth(call.x.extent(2)),
        rows(call.x.extent(3)),
        columns(call.x.extent(4)),
        elements(static_cast<Index>(elements_of_channel(call))),
        channels(call.x.extent(1)),
        y_step(call.y.stride(0)),
        accumulates(call.accumulate) {
    for (int i = 0; i < 5; ++i) step[i] = call.x.extent(i) > 1 ? call.x.stride(i) : 0;
  }
  static std::int64_t elements_of_channel(const SumLaunch& call) {
    return call.x.extent(0) * call.x.extent(2) * call.x.extent(3) * call.x.extent(4);
  }
  /// Where an element lies in its channel.
  __device__ std::int64_t offset(Index element) const {
    const auto [lines, column] = columns.divide(element);
    const auto [planes, row] = rows.divide(lines);
    const auto [image, plane] = depth.divide(planes);
    return image * step[0] + plane * step[2] + row * step[3] + column * step[4];
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

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    sum_of_channels(const __grid_constant__ SumShape<Index> shape, const Stored* x, Stored* y) {
  __shared__ double sums[block_threads];
  constexpr Index of_loads = loads_ahead * block_threads;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x) {
    const Stored* const from = x + c * shape.step[1];
    double sum = 0;
    Index element = static_cast<Index>(threadIdx.x);
    for (; element + of_loads - block_threads < shape.elements; element += of_loads) {
      Stored values[loads_ahead];
#pragma unroll
      for (int i = 0; i < loads_ahead; ++i)
        values[i] = from[shape.offset(element + i * block_threads)];
#pragma unroll
      for (int i = 0; i < loads_ahead; ++i) sum += widened(values[i]);
    }
    for (; element < shape.elements; element += block_threads)
      sum += widened(from[shape.offset(element)]);
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
  // A thread looks a batch of loads beyond the last element.
  const bool fits = static_cast<double>(SumShape<int>::elements_of_channel(call)) <
                    index32_limit - 2 * loads_ahead * block_threads;
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_index(fits, [&]<class Index>(Index) {
      Launch(stream, blocks_for(call.x.extent(1), 1), block_threads)(
          sum_of_channels<Stored, Index>, SumShape<Index>(call),
          static_cast<const Stored*>(call.x.data()), static_cast<Stored*>(call.y.data()));
    });
  });
}

}  // namespace plumb::cuda
