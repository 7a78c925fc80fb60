// Gradients of pooling: a thread sums one element of dx over the windows that hold it, in their
// order, and asks of each whether the element gave the maximum.
//
// Tiling: there is none; neighbouring threads are neighbouring elements in the order N C D H W.
// Bytes: dx is written once; dy and x are read once, and where windows overlap again from L1.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// One axis of dx, and the windows along it.
template <class Index>
struct Sweep {
  Index extent, taps, before, after, outputs;
  Divisor<Index> stride, dilation;
  bool moves;  ///< a stride to no second output moves nothing and may be any number

  Sweep(std::int64_t extent, std::int64_t taps, std::int64_t stride, std::int64_t dilation,
        std::int64_t before, std::int64_t after, std::int64_t outputs)
      : extent(static_cast<Index>(extent)),
        taps(static_cast<Index>(taps)),
        before(static_cast<Index>(before)),
        after(static_cast<Index>(after)),
        outputs(static_cast<Index>(outputs)),
        stride(outputs > 1 ? stride : 1),
        dilation(taps > 1 ? dilation : 1),
        moves(outputs > 1) {}

  /// The coordinate of an output's first tap.
  __device__ Index first(Index output) const {
    return (moves ? output * stride.value() : 0) - before;
  }
  /// The outputs whose windows may hold a place; with a dilation not all of them do.
  __device__ Taps<Index> reaching(Index place) const {
    if (!moves) return {0, outputs};
    const Index beyond = place + before - (taps - 1) * dilation.value();
    const Index begin = beyond > 0 ? stride.quotient(beyond - 1) + 1 : 0;
    const Index end = stride.quotient(place + before) + 1;
    return {begin, end < outputs ? end : outputs};
  }
  /// Whether the place is a tap of an output's window.
  __device__ bool holds(Index place, Index output) const {
    const Index distance = place - first(output);
    if (distance < 0) return false;
    const auto [tap, rest] = dilation.divide(distance);
    return rest == 0 && tap < taps;
  }
  __device__ Taps<Index> inside(Index first) const {
    return taps_inside(first, extent, taps, dilation);
  }
  /// How many taps an average counts.
  __device__ Index counted(Index output, bool padding) const {
    const Taps<Index> of =
        padding ? taps_inside(first(output) + before, before + extent + after, taps, dilation)
                : inside(first(output));
    return of.end - of.begin;
  }
};

template <class Index>
struct PoolShape {
  Sweep<Index> planes, rows, columns;
  Divisor<Index> c, d, h, w;
  Index x_step[5], dy_step[5], dx_step[5];
  bool count_padding;

  explicit PoolShape(const PoolBackwardLaunch& call)
      : PoolShape(call.dx.extents(), call.dy.extents(), call.geometry, call) {}

 private:
  PoolShape(const Extents& dx, const Extents& dy, const PoolGeometry& g,
            const PoolBackwardLaunch& call)
      : planes(dx[2], g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back, dy[2]),
        rows(dx[3], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom, dy[3]),
        columns(dx[4], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right,
                dy[4]),
        c(dx[1]),
        d(dx[2]),
        h(dx[3]),
        w(dx[4]),
        count_padding(g.count_padding) {
    for (int i = 0; i < 5; ++i) {
      x_step[i] = call.x.empty() ? 0 : step<Index>(dx, call.x.strides(), i);
      dy_step[i] = step<Index>(dy, call.dy.strides(), i);
      dx_step[i] = step<Index>(dx, call.dx.strides(), i);
    }
  }
};

bool fits_32_bits(const PoolBackwardLaunch& call) {
  const PoolGeometry& g = call.geometry;
  const auto swept = [](std::int64_t extent, std::int64_t taps, std::int64_t dilation,
                        std::int64_t stride) {
    return static_cast<double>(extent) + 3.0 * static_cast<double>(taps) * dilation + stride;
  };
  const Extents &dx = call.dx.extents(), &dy = call.dy.extents();
  return std::max({call.x.empty() ? 0 : reach(dx, call.x.strides()), reach(dx, call.dx.strides()),
                   reach(dy, call.dy.strides()), count(dx), count(dy),
                   swept(dx[2], g.window.d, g.dilation.d, g.stride.d),
                   swept(dx[3], g.window.h, g.dilation.h, g.stride.h),
                   swept(dx[4], g.window.w, g.dilation.w, g.stride.w)}) < index32_limit;
}

template <class Index>
struct Place {
  Index d, h, w;
};

/// Whether the place is the first maximum of a window that holds it, or its last NaN.
template <class Value, class Stored, class Index>
__device__ bool is_maximum(const PoolShape<Index>& shape, const Stored* image,
                           const Place<Index>& at, const Place<Index>& output) {
  const Index d = shape.planes.first(output.d), h = shape.rows.first(output.h),
              w = shape.columns.first(output.w);
  const Taps<Index> planes = shape.planes.inside(d), rows = shape.rows.inside(h),
                    columns = shape.columns.inside(w);
  const auto value = [&](Index at_d, Index at_h, Index at_w) {
    return convert<Value>(
        image[at_d * shape.x_step[2] + at_h * shape.x_step[3] + at_w * shape.x_step[4]]);
  };
  const Value own = value(at.d, at.h, at.w);
  bool is_behind = false;  // the place itself
  for (Index t = planes.begin; t < planes.end; ++t)
    for (Index r = rows.begin; r < rows.end; ++r)
      for (Index s = columns.begin; s < columns.end; ++s) {
        const Index at_d = d + t * shape.planes.dilation.value(),
                    at_h = h + r * shape.rows.dilation.value(),
                    at_w = w + s * shape.columns.dilation.value();
        if (at_d == at.d && at_h == at.h && at_w == at.w) {
          is_behind = true;
          continue;
        }
        const Value other = value(at_d, at_h, at_w);
        if (other != other ? own == own || is_behind : other > own || (other == own && !is_behind))
          return false;
      }
  return true;
}

template <PoolKind kind, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    sum_windows(const __grid_constant__ PoolShape<Index> shape, const Stored* x, const Stored* dy,
                Stored* dx, std::int64_t elements) {
  using Value = ComputeType<Stored>;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    const auto [lines, w] = shape.w.divide(static_cast<Index>(element));
    const auto [planes, h] = shape.h.divide(lines);
    const auto [volumes, d] = shape.d.divide(planes);
    const auto [n, c] = shape.c.divide(volumes);
    const Place<Index> at{d, h, w};
    const Stored* image = x + n * shape.x_step[0] + c * shape.x_step[1];
    const Stored* from = dy + n * shape.dy_step[0] + c * shape.dy_step[1];
    const Taps<Index> in_z = shape.planes.reaching(d), in_p = shape.rows.reaching(h),
                      in_q = shape.columns.reaching(w);
    Value sum = 0;
    for (Index z = in_z.begin; z < in_z.end; ++z)
      for (Index p = in_p.begin; p < in_p.end; ++p)
        for (Index q = in_q.begin; q < in_q.end; ++q) {
          if (!shape.planes.holds(d, z) || !shape.rows.holds(h, p) || !shape.columns.holds(w, q))
            continue;
          const Value gradient = convert<Value>(
              from[z * shape.dy_step[2] + p * shape.dy_step[3] + q * shape.dy_step[4]]);
          if constexpr (kind == PoolKind::average) {
            const bool padding = shape.count_padding;
            sum += gradient / (static_cast<Value>(shape.planes.counted(z, padding)) *
                               static_cast<Value>(shape.rows.counted(p, padding)) *
                               static_cast<Value>(shape.columns.counted(q, padding)));
          } else if (is_maximum<Value>(shape, image, at, Place<Index>{z, p, q})) {
            sum += gradient;
          }
        }
    dx[n * shape.dx_step[0] + c * shape.dx_step[1] + d * shape.dx_step[2] + h * shape.dx_step[3] +
       w * shape.dx_step[4]] = convert<Stored>(sum);
  }
}

template <PoolKind kind, class Stored, class Index>
void launch(const PoolBackwardLaunch& call, void* stream) {
  const std::int64_t elements = element_count(call.dx.extents());
  Launch(stream, blocks_for(elements, block_threads), block_threads)(
      sum_windows<kind, Stored, Index>, PoolShape<Index>(call),
      static_cast<const Stored*>(call.x.data()), static_cast<const Stored*>(call.dy.data()),
      static_cast<Stored*>(call.dx.data()), elements);
}

}  // namespace

void pool_backward(const PoolBackwardLaunch& call, void* stream) {
  with_any_stored(call.dx.dtype(), [&]<class Stored>(Stored) {
    with_index(fits_32_bits(call), [&]<class Index>(Index) {
      if (call.geometry.kind == PoolKind::max)
        launch<PoolKind::max, Stored, Index>(call, stream);
      else
        launch<PoolKind::average, Stored, Index>(call, stream);
    });
  });
}

}  // namespace plumb::cuda
