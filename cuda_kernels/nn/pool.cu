// Pooling: y[n,c,p,q] is the maximum or the average of x over a window, one thread an output.
//
// Tiling: there is none; neighbouring threads are neighbouring outputs in the order N C P Q.
// Bytes: x and y move once; windows that overlap read x again from L1 and L2.
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// One direction of the window's movement over the image.
template <class Index>
struct Sweep {
  Index extent, taps, stride, before, after;
  Divisor<Index> dilation;

  Sweep(std::int64_t extent, std::int64_t taps, std::int64_t stride, std::int64_t dilation,
        std::int64_t before, std::int64_t after, std::int64_t outputs)
      : extent(static_cast<Index>(extent)),
        taps(static_cast<Index>(taps)),
        // A stride to no second output, and a dilation of one tap, move nothing and may be any
        // number.
        stride(outputs > 1 ? static_cast<Index>(stride) : 0),
        before(static_cast<Index>(before)),
        after(static_cast<Index>(after)),
        dilation(taps > 1 ? dilation : 1) {}
};

template <class Index>
struct PoolShape {
  Sweep<Index> rows, columns;
  Divisor<Index> c, p, q;
  ImageSteps<Index> x_step, y_step;
  bool count_padding;

  explicit PoolShape(const PoolLaunch& call)
      : PoolShape(call.x.extents(), call.y.extents(), call.geometry, call) {}

 private:
  PoolShape(const Extents& x, const Extents& y, const PoolGeometry& g, const PoolLaunch& call)
      : rows(x[2], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom, y[2]),
        columns(x[3], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right, y[3]),
        c(y[1]),
        p(y[2]),
        q(y[3]),
        x_step(x, call.x.strides()),
        y_step(y, call.y.strides()),
        count_padding(g.count_padding) {}
};

bool fits_32_bits(const PoolLaunch& call) {
  const PoolGeometry& g = call.geometry;
  const auto swept = [](std::int64_t extent, std::int64_t taps, std::int64_t dilation,
                        std::int64_t stride) {
    return static_cast<double>(extent) + 3.0 * static_cast<double>(taps) * dilation + stride;
  };
  return std::max({reach(call.x.extents(), call.x.strides()),
                   reach(call.y.extents(), call.y.strides()), count(call.y.extents()),
                   swept(call.x.extent(2), g.window.h, g.dilation.h, g.stride.h),
                   swept(call.x.extent(3), g.window.w, g.dilation.w, g.stride.w)}) < index32_limit;
}

/// Returns the part of a window that averages are divided by, along one direction.
template <class Index>
__device__ Index counted(const Sweep<Index>& sweep, Index first, const Taps<Index>& inside,
                         bool count_padding) {
  if (!count_padding) return inside.end - inside.begin;
  const Taps<Index> padded = taps_inside(
      first + sweep.before, sweep.before + sweep.extent + sweep.after, sweep.taps, sweep.dilation);
  return padded.end - padded.begin;
}

template <PoolKind kind, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    pool_windows(const __grid_constant__ PoolShape<Index> shape, const Stored* x, Stored* y,
                 std::int64_t outputs) {
  using Value = ComputeType<Stored>;
  for_each_element<block_threads>(
      outputs, shape.c, shape.p, shape.q, [&](Index n, Index c, Index p, Index q) {
        const Index first_h = p * shape.rows.stride - shape.rows.before;
        const Index first_w = q * shape.columns.stride - shape.columns.before;
        const Taps<Index> rows =
            taps_inside(first_h, shape.rows.extent, shape.rows.taps, shape.rows.dilation);
        const Taps<Index> columns =
            taps_inside(first_w, shape.columns.extent, shape.columns.taps, shape.columns.dilation);

        const Stored* plane = x + n * shape.x_step.n + c * shape.x_step.c;
        Value result = kind == PoolKind::max ? -infinity<Value> : Value{0};
        for (Index r = rows.begin; r < rows.end; ++r) {
          const Index h = first_h + r * shape.rows.dilation.value();
          for (Index s = columns.begin; s < columns.end; ++s) {
            const Index w = first_w + s * shape.columns.dilation.value();
            const Value value = convert<Value>(plane[h * shape.x_step.h + w * shape.x_step.w]);
            if constexpr (kind == PoolKind::average)
              result += value;
            else if (value > result || value != value)  // once NaN, nothing compares greater
              result = value;
          }
        }
        if constexpr (kind == PoolKind::average)
          result /=
              static_cast<Value>(counted(shape.rows, first_h, rows, shape.count_padding)) *
              static_cast<Value>(counted(shape.columns, first_w, columns, shape.count_padding));
        y[n * shape.y_step.n + c * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            convert<Stored>(result);
      });
}

}  // namespace

void pool(const PoolLaunch& call, void* stream) {
  const std::int64_t outputs = element_count(call.y.extents());
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_index(fits_32_bits(call), [&]<class Index>(Index) {
      const bool is_max = call.geometry.kind == PoolKind::max;
      Launch(stream, blocks_for(outputs, block_threads), block_threads)(
          is_max ? pool_windows<PoolKind::max, Stored, Index>
                 : pool_windows<PoolKind::average, Stored, Index>,
          PoolShape<Index>(call), static_cast<const Stored*>(call.x.data()),
          static_cast<Stored*>(call.y.data()), outputs);
    });
  });
}

}  // namespace plumb::cuda
