// Sums over all but the channels, for the gradient of a bias: y[c] = sum of x[n,c,d,h,w].
//
// Tiling: a block a channel. Element e of the channel goes to chain e % 256, a sum in double; the
//   chains are added in a tree. The order depends on nothing but the extents, and is every
//   backend's (docs/numerics.md). Few channels are few blocks, so each block has 1,024 threads that
//   load lines of 256 elements; the first 256 add them up, from shared memory, while the next
//   lines come.
// Bytes: x once. Few channels leave most of the device idle.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int chains = 256, loading_lines = 4, block_threads = chains * loading_lines;
/// Lines that are staged at once: 16 loads a thread, or 64 KB.
template <class Stored>
constexpr int staged_lines = sizeof(Stored) > 4 ? 32 : 64;

/// `has_planes` is false where D, H and W lie along one another: then W has all of them.
template <class Index, bool has_planes>
struct SumShape {
  Divisor<Index> depth, rows, columns;
  Index elements;  ///< of one channel
  std::int64_t channels, step[5], y_step;
  bool accumulates;

  explicit SumShape(const SumLaunch& call)
      : depth(call.x.extent(2)),
        rows(call.x.extent(3)),
        columns(has_planes ? call.x.extent(4) : elements_of_image(call)),
        elements(static_cast<Index>(call.x.extent(0) * elements_of_image(call))),
        channels(call.x.extent(1)),
        y_step(call.y.stride(0)),
        accumulates(call.accumulate) {
    for (int i = 0; i < 5; ++i) step[i] = call.x.extent(i) > 1 ? call.x.stride(i) : 0;
    if (!has_planes) step[4] = step_of_image(call);
  }
  static std::int64_t elements_of_image(const SumLaunch& call) {
    return call.x.extent(2) * call.x.extent(3) * call.x.extent(4);
  }
  /// From one element of an image's channel to the next where D, H and W lie along one another;
  /// 0 where they do not, and where there is one element.
  static std::int64_t step_of_image(const SumLaunch& call) {
    std::int64_t step = 0, behind = 0;
    bool is_first = true;
    for (int i = 4; i > 1; --i) {
      if (call.x.extent(i) == 1) continue;
      if (is_first)
        step = behind = call.x.stride(i);
      else if (call.x.stride(i) != behind)
        return 0;
      is_first = false;
      behind *= call.x.extent(i);
    }
    return step;
  }
  /// Where an element lies in its channel.
  __device__ std::int64_t offset(Index element) const {
    const auto [lines, column] = columns.divide(element);
    if constexpr (!has_planes) return lines * step[0] + column * step[4];
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

/// A thread's elements of the lines that are staged at once.
template <class Stored>
struct LoadedLines {
  static constexpr int count = staged_lines<Stored> / loading_lines;
  Stored values[count] = {};

  /// Loads from `line` on.
  template <class Shape, class Index>
  __device__ void load(const Shape& shape, const Stored* channel, Index line) {
    const Index first = line * chains + static_cast<Index>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (const Index element = first + i * block_threads; element < shape.elements)
        values[i] = channel[shape.offset(element)];
  }
  __device__ void stage(Stored* staged) const {
#pragma unroll
    for (int i = 0; i < count; ++i) staged[threadIdx.x + i * block_threads] = values[i];
  }
};

/// Adds a chain's elements of the lines that are staged, of which `lines` are left.
template <class Stored, class Index>
__device__ double added(double sum, const Stored* staged, Index lines) {
  if (lines >= staged_lines<Stored>) {
#pragma unroll 16
    for (int i = 0; i < staged_lines<Stored>; ++i) sum += widened(staged[i * chains]);
  } else {
    for (int i = 0; i < lines; ++i) sum += widened(staged[i * chains]);
  }
  return sum;
}

template <class Stored, class Index, bool has_planes>
__global__ void __launch_bounds__(block_threads, 1)
    sum_of_channels(const __grid_constant__ SumShape<Index, has_planes> shape, const Stored* x,
                    Stored* y) {
  __shared__ double sums[chains];
  Stored* const staged = reinterpret_cast<Stored*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const bool adds = thread < chains;
  // The lines of this thread's chain.
  const Index lines = (shape.elements - thread % chains + chains - 1) / chains;
  const Index all_lines = (shape.elements + chains - 1) / chains;
  for (std::int64_t c = blockIdx.x; c < shape.channels; c += gridDim.x) {
    const Stored* const channel = x + c * shape.step[1];
    double sum = 0;
    LoadedLines<Stored> next;
    next.load(shape, channel, Index{0});
    for (Index line = 0; line < all_lines; line += staged_lines<Stored>) {
      next.stage(staged);
      __syncthreads();
      next.load(shape, channel, line + staged_lines<Stored>);
      if (adds) sum = added(sum, staged + thread, lines - line);
      __syncthreads();  // before others are staged
    }
    if (adds) sums[thread] = sum;
    for (int half = chains / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) {
      Stored& result = y[c * shape.y_step];
      result = narrowed<Stored>(shape.accumulates ? sums[0] + widened(result) : sums[0]);
    }
    __syncthreads();  // before the next channel's sums
  }
}

}  // namespace

void sum_channels(const SumLaunch& call, void* stream) {
  // A thread looks two stages beyond the last element.
  const double elements = static_cast<double>(call.x.extent(0)) *
                          static_cast<double>(SumShape<int, true>::elements_of_image(call));
  const bool fits = elements < index32_limit - 2 * 64 * chains;
  const bool joins = SumShape<int, true>::step_of_image(call) != 0;
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    const auto launch = [&]<class Index, bool has_planes>(const SumShape<Index, has_planes>& of) {
      Launch(stream, blocks_for(call.x.extent(1), 1), block_threads,
             staged_lines<Stored> * chains * sizeof(Stored))(
          sum_of_channels<Stored, Index, has_planes>, of, static_cast<const Stored*>(call.x.data()),
          static_cast<Stored*>(call.y.data()));
    };
    if (fits && joins)
      launch(SumShape<std::int32_t, false>(call));
    else if (fits)
      launch(SumShape<std::int32_t, true>(call));
    else
      launch(SumShape<std::int64_t, true>(call));
  });
}

}  // namespace plumb::cuda
