// Padding: copies images with what their boundaries show around them, for kernels that know none.
//
// Tiling: there is none; neighbouring threads are neighbouring elements of y's rows.
// Bytes: x and y move once.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/boundary.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// One axis of the copy: y's index i shows x at begin + i step.
template <class Index>
struct PaddedAxis {
  Index extent, begin, step;
  Boundary boundary;

  __device__ Index source(Index i) const { return at_boundary(boundary, begin + i * step, extent); }
};

template <class Index>
struct PadShape {
  Divisor<Index> c, d, h, w;  ///< extents of y
  PaddedAxis<Index> depth, rows, columns;
  Index x_step[5], y_step[5];

  explicit PadShape(const PadLaunch& call)
      : c(call.y.extent(1)),
        d(call.y.extent(2)),
        h(call.y.extent(3)),
        w(call.y.extent(4)),
        depth(axis(call, 2, call.begin.d, call.step.d, call.boundary.d)),
        rows(axis(call, 3, call.begin.h, call.step.h, call.boundary.h)),
        columns(axis(call, 4, call.begin.w, call.step.w, call.boundary.w)) {
    for (int i = 0; i < 5; ++i) {
      x_step[i] = step<Index>(call.x.extents(), call.x.strides(), i);
      y_step[i] = step<Index>(call.y.extents(), call.y.strides(), i);
    }
  }

 private:
  static PaddedAxis<Index> axis(const PadLaunch& call, int dimension, std::int64_t begin,
                                std::int64_t step, Boundary boundary) {
    // A step to no second element moves nothing, and may be any number.
    return {static_cast<Index>(call.x.extent(dimension)), static_cast<Index>(begin),
            call.y.extent(dimension) > 1 ? static_cast<Index>(step) : 0, boundary};
  }
};

bool fits_32_bits(const PadLaunch& call) {
  const auto swept = [&](int dimension, std::int64_t begin, std::int64_t step) {
    const double outputs = static_cast<double>(call.y.extent(dimension) - 1);
    return std::max(2.0 * static_cast<double>(call.x.extent(dimension)),
                    static_cast<double>(std::abs(begin)) + outputs * static_cast<double>(step));
  };
  return std::max({reach(call.x.extents(), call.x.strides()),
                   reach(call.y.extents(), call.y.strides()), count(call.y.extents()),
                   swept(2, call.begin.d, call.step.d), swept(3, call.begin.h, call.step.h),
                   swept(4, call.begin.w, call.step.w)}) < index32_limit;
}

/// Elements are copied as bits of their size.
template <class Bits, class Index>
__global__ void __launch_bounds__(block_threads)
    pad_elements(const __grid_constant__ PadShape<Index> shape, const Bits* x, Bits* y,
                 std::int64_t elements) {
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    const auto [lines, k] = shape.w.divide(static_cast<Index>(element));
    const auto [planes, j] = shape.h.divide(lines);
    const auto [images, i] = shape.d.divide(planes);
    const auto [n, c] = shape.c.divide(images);
    const Index d = shape.depth.source(i), h = shape.rows.source(j), w = shape.columns.source(k);
    Bits value{};
    if (d >= 0 && h >= 0 && w >= 0)
      value = x[n * shape.x_step[0] + c * shape.x_step[1] + d * shape.x_step[2] +
                h * shape.x_step[3] + w * shape.x_step[4]];
    y[n * shape.y_step[0] + c * shape.y_step[1] + i * shape.y_step[2] + j * shape.y_step[3] +
      k * shape.y_step[4]] = value;
  }
}

template <class Bits>
void launch(const PadLaunch& call, void* stream) {
  const std::int64_t elements = element_count(call.y.extents());
  with_index(fits_32_bits(call), [&]<class Index>(Index) {
    Launch(stream, blocks_for(elements, block_threads), block_threads)(
        pad_elements<Bits, Index>, PadShape<Index>(call), static_cast<const Bits*>(call.x.data()),
        static_cast<Bits*>(call.y.data()), elements);
  });
}

}  // namespace

void pad(const PadLaunch& call, void* stream) {
  if (element_count(call.y.extents()) == 0) return;
  switch (size_in_bytes(call.x.dtype())) {
    case 8: return launch<std::uint64_t>(call, stream);
    case 4: return launch<std::uint32_t>(call, stream);
    default: return launch<std::uint16_t>(call, stream);
  }
}

}  // namespace plumb::cuda
