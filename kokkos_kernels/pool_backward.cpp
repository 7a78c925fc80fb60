// Gradients of pooling, one work item an element of dx: it sums over the windows that hold it, in
// their order, and asks of each whether it gave the maximum.
//
// Tiling: none; neighbouring work items are neighbouring elements in the order N C D H W.
// Bytes: dx once; dy and x once, and where windows overlap again from caches.
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/pool_axis.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

/// One axis of dx, and the windows along it.
struct Sweep : PoolAxis {
  using PoolAxis::PoolAxis;

  /// The outputs whose windows may hold a place; with a dilation not all of them do.
  KOKKOS_INLINE_FUNCTION Taps reaching(std::int64_t place) const {
    if (stride == 0) return {0, outputs};
    const std::int64_t beyond = place + before - (taps - 1) * dilation;
    const std::int64_t begin = beyond > 0 ? (beyond - 1) / stride + 1 : 0;
    const std::int64_t end = (place + before) / stride + 1;
    return {begin, end < outputs ? end : outputs};
  }
  /// The tap of an output's window that is the place, or -1.
  KOKKOS_INLINE_FUNCTION std::int64_t tap_at(std::int64_t place, std::int64_t output) const {
    const std::int64_t distance = place - first(output);
    if (distance < 0 || distance % dilation != 0 || distance / dilation >= taps) return -1;
    return distance / dilation;
  }
};

template <PoolKind kind, class Stored>
struct PoolBackward {
  using Value = ComputeType<Stored>;

  Sweep planes, rows, columns;
  std::int64_t c;
  Steps x_step, dy_step, dx_step;
  bool count_padding;
  const Stored *x, *dy;
  Stored* dx;

  explicit PoolBackward(const PoolBackwardLaunch& call)
      : PoolBackward(call, call.dx.extents(), call.dy.extents(), call.geometry) {}

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    const Place at = place_of(element, c, planes.extent, rows.extent, columns.extent);
    const Taps in_z = planes.reaching(at.d), in_p = rows.reaching(at.h),
               in_q = columns.reaching(at.w);
    Value sum = 0;
    for (std::int64_t z = in_z.begin; z < in_z.end; ++z)
      for (std::int64_t p = in_p.begin; p < in_p.end; ++p)
        for (std::int64_t q = in_q.begin; q < in_q.end; ++q) {
          const std::int64_t t = planes.tap_at(at.d, z), r = rows.tap_at(at.h, p),
                             s = columns.tap_at(at.w, q);
          if (t < 0 || r < 0 || s < 0) continue;
          const auto gradient = convert<Value>(dy[dy_step.offset(at.n, at.c, z, p, q)]);
          if constexpr (kind == PoolKind::average)
            sum += gradient / (static_cast<Value>(planes.places(z, count_padding) *
                                                  rows.places(p, count_padding)) *
                               static_cast<Value>(columns.places(q, count_padding)));
          else if (is_maximum(at, z, p, q))
            sum += gradient;
        }
    dx[dx_step.offset(at.n, at.c, at.d, at.h, at.w)] = convert<Stored>(sum);
  }

 private:
  /// Whether the place is the first maximum of a window that holds it, or its last NaN.
  KOKKOS_FUNCTION bool is_maximum(const Place& at, std::int64_t z, std::int64_t p,
                                  std::int64_t q) const {
    const std::int64_t d = planes.first(z), h = rows.first(p), w = columns.first(q);
    const Taps in_planes = planes.taken(d), in_rows = rows.taken(h), in_columns = columns.taken(w);
    const Stored* image = x + x_step.offset(at.n, at.c, 0, 0, 0);
    const auto own = convert<Value>(image[x_step.offset(0, 0, at.d, at.h, at.w)]);
    bool is_behind = false;  // the place itself
    for (std::int64_t t = in_planes.begin; t < in_planes.end; ++t)
      for (std::int64_t r = in_rows.begin; r < in_rows.end; ++r)
        for (std::int64_t s = in_columns.begin; s < in_columns.end; ++s) {
          const std::int64_t at_d = d + t * planes.dilation, at_h = h + r * rows.dilation,
                             at_w = w + s * columns.dilation;
          if (at_d == at.d && at_h == at.h && at_w == at.w) {
            is_behind = true;
            continue;
          }
          const auto other = convert<Value>(image[x_step.offset(0, 0, at_d, at_h, at_w)]);
          if (other != other ? own == own || is_behind
                             : other > own || (other == own && !is_behind))
            return false;
        }
    return true;
  }

  PoolBackward(const PoolBackwardLaunch& call, const Extents& to, const Extents& from,
               const PoolGeometry& g)
      : planes(to[2], g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back,
               from[2]),
        rows(to[3], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom, from[3]),
        columns(to[4], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right,
                from[4]),
        c(to[1]),
        x_step(to, call.x.empty() ? call.dx.strides() : call.x.strides()),
        dy_step(from, call.dy.strides()),
        dx_step(to, call.dx.strides()),
        count_padding(g.count_padding),
        x(static_cast<const Stored*>(call.x.data())),
        dy(static_cast<const Stored*>(call.dy.data())),
        dx(static_cast<Stored*>(call.dx.data())) {}
};

}  // namespace

void pool_backward(const PoolBackwardLaunch& call, const Instance& instance) {
  with_any_stored(call.dx.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      const auto all = all_elements(space, call.dx.extents());
      if (call.geometry.kind == PoolKind::max)
        Kokkos::parallel_for("plumb.pool_backward.max", all,
                             PoolBackward<PoolKind::max, Stored>(call));
      else
        Kokkos::parallel_for("plumb.pool_backward.average", all,
                             PoolBackward<PoolKind::average, Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
