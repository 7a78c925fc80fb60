// Pooling: y[n,c,z,p,q] is the maximum or the average of x over a window, one thread an output.
//
// Tiling: there is none; neighbouring threads are neighbouring outputs in the order N C Z P Q.
// Images without a depth have kernels of their own, which know of none. Bytes: x and y move once;
// windows that overlap read x again from L1 and L2.
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
  Sweep<Index> planes, rows, columns;
  Divisor<Index> c, z, p, q;
  Index x_step[5], y_step[5];
  bool count_padding;

  explicit PoolShape(const PoolLaunch& call)
      : PoolShape(call.x.extents(), call.y.extents(), call.geometry, call) {}

 private:
  PoolShape(const Extents& x, const Extents& y, const PoolGeometry& g, const PoolLaunch& call)
      : planes(x[2], g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back, y[2]),
        rows(x[3], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom, y[3]),
        columns(x[4], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right, y[4]),
        c(y[1]),
        z(y[2]),
        p(y[3]),
        q(y[4]),
        count_padding(g.count_padding) {
    for (int i = 0; i < 5; ++i) {
      x_step[i] = step<Index>(x, call.x.strides(), i);
      y_step[i] = step<Index>(y, call.y.strides(), i);
    }
  }
};

bool has_depth(const PoolLaunch& call) {
  return call.x.extent(2) > 1 || call.y.extent(2) > 1 || call.geometry.window.d > 1;
}

bool fits_32_bits(const PoolLaunch& call) {
  const PoolGeometry& g = call.geometry;
  const auto swept = [](std::int64_t extent, std::int64_t taps, std::int64_t dilation,
                        std::int64_t stride) {
    return static_cast<double>(extent) + 3.0 * static_cast<double>(taps) * dilation + stride;
  };
  return std::max({reach(call.x.extents(), call.x.strides()),
                   reach(call.y.extents(), call.y.strides()), count(call.y.extents()),
                   swept(call.x.extent(2), g.window.d, g.dilation.d, g.stride.d),
                   swept(call.x.extent(3), g.window.h, g.dilation.h, g.stride.h),
                   swept(call.x.extent(4), g.window.w, g.dilation.w, g.stride.w)}) < index32_limit;
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

/// The values of a window in one plane, joined to those before.
template <PoolKind kind, class Value, class Stored, class Index>
__device__ Value join_plane(const PoolShape<Index>& shape, const Stored* plane, Index first_h,
                            Index first_w, const Taps<Index>& rows, const Taps<Index>& columns,
                            Value result) {
  for (Index r = rows.begin; r < rows.end; ++r) {
    const Index h = first_h + r * shape.rows.dilation.value();
    for (Index s = columns.begin; s < columns.end; ++s) {
      const Index w = first_w + s * shape.columns.dilation.value();
      const Value value = convert<Value>(plane[h * shape.x_step[3] + w * shape.x_step[4]]);
      if constexpr (kind == PoolKind::average)
        result += value;
      else if (value > result || value != value)  // once NaN, nothing compares greater
        result = value;
    }
  }
  return result;
}

template <PoolKind kind, bool has_depth, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    pool_windows(const __grid_constant__ PoolShape<Index> shape, const Stored* x, Stored* y,
                 std::int64_t outputs) {
  using Value = ComputeType<Stored>;
  // Of images with a depth, the planes of all images are counted first.
  for_each_element<block_threads>(
      outputs, has_depth ? shape.z : shape.c, shape.p, shape.q,
      [&](Index volume, Index plane, Index p, Index q) {
        Index n = volume, c = plane, z = 0;
        if constexpr (has_depth) {
          const auto [image, channel] = shape.c.divide(volume);
          n = image, c = channel, z = plane;
        }
        const Index first_h = p * shape.rows.stride - shape.rows.before;
        const Index first_w = q * shape.columns.stride - shape.columns.before;
        const Taps<Index> rows =
            taps_inside(first_h, shape.rows.extent, shape.rows.taps, shape.rows.dilation);
        const Taps<Index> columns =
            taps_inside(first_w, shape.columns.extent, shape.columns.taps, shape.columns.dilation);

        const Stored* image = x + n * shape.x_step[0] + c * shape.x_step[1];
        Value result = kind == PoolKind::max ? -infinity<Value> : Value{0};
        Value divisor = 1;
        if constexpr (has_depth) {
          const Index first_d = z * shape.planes.stride - shape.planes.before;
          const Taps<Index> planes =
              taps_inside(first_d, shape.planes.extent, shape.planes.taps, shape.planes.dilation);
          for (Index t = planes.begin; t < planes.end; ++t) {
            const Index d = first_d + t * shape.planes.dilation.value();
            result = join_plane<kind>(shape, image + d * shape.x_step[2], first_h, first_w, rows,
                                      columns, result);
          }
          if constexpr (kind == PoolKind::average)
            divisor =
                static_cast<Value>(counted(shape.planes, first_d, planes, shape.count_padding));
        } else {
          result = join_plane<kind>(shape, image, first_h, first_w, rows, columns, result);
        }
        if constexpr (kind == PoolKind::average) {
          divisor *= static_cast<Value>(counted(shape.rows, first_h, rows, shape.count_padding));
          divisor *=
              static_cast<Value>(counted(shape.columns, first_w, columns, shape.count_padding));
          result /= divisor;
        }
        y[n * shape.y_step[0] + c * shape.y_step[1] + z * shape.y_step[2] + p * shape.y_step[3] +
          q * shape.y_step[4]] = convert<Stored>(result);
      });
}

template <PoolKind kind, bool has_depth, class Stored, class Index>
void launch(const PoolLaunch& call, void* stream) {
  const std::int64_t outputs = element_count(call.y.extents());
  Launch(stream, blocks_for(outputs, block_threads), block_threads)(
      pool_windows<kind, has_depth, Stored, Index>, PoolShape<Index>(call),
      static_cast<const Stored*>(call.x.data()), static_cast<Stored*>(call.y.data()), outputs);
}

}  // namespace

void pool(const PoolLaunch& call, void* stream) {
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_index(fits_32_bits(call), [&]<class Index>(Index) {
      const bool is_max = call.geometry.kind == PoolKind::max;
      if (has_depth(call))
        is_max ? launch<PoolKind::max, true, Stored, Index>(call, stream)
               : launch<PoolKind::average, true, Stored, Index>(call, stream);
      else
        is_max ? launch<PoolKind::max, false, Stored, Index>(call, stream)
               : launch<PoolKind::average, false, Stored, Index>(call, stream);
    });
  });
}

}  // namespace plumb::cuda
