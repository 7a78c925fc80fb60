// Pooling: y[n,c,p,q] is the maximum or the average of x over a window, one work item an output.
//
// Tiling: none; neighbouring work items are neighbouring outputs in the order N C P Q.
// Bytes: x and y once; windows that overlap read x again from caches.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

/// One direction of the window's movement over the image.
struct Sweep {
  std::int64_t extent, taps, stride, dilation, before, after;

  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t output) const {
    return output * stride - before;
  }
  KOKKOS_INLINE_FUNCTION Taps inside(std::int64_t output) const {
    return taps_inside(first(output), extent, taps, dilation);
  }
  /// How many of the window's places averages are divided by.
  KOKKOS_INLINE_FUNCTION std::int64_t places(std::int64_t output, bool count_padding) const {
    const Taps counted =
        count_padding ? taps_inside(first(output) + before, before + extent + after, taps, dilation)
                      : inside(output);
    return counted.end - counted.begin;
  }
};

template <PoolKind kind, class Stored>
struct Pool {
  using Value = ComputeType<Stored>;

  Sweep rows, columns;
  std::int64_t c, p, q;
  Steps x_step, y_step;
  bool count_padding;
  const Stored* x;
  Stored* y;

  explicit Pool(const PoolLaunch& call)
      : Pool(call, call.x.extents(), call.y.extents(), call.geometry) {}

  KOKKOS_FUNCTION void operator()(std::int64_t output) const {
    const Place at = place_of(output, c, p, q);
    const Taps in_rows = rows.inside(at.h), in_columns = columns.inside(at.w);
    const Stored* plane = x + x_step.offset(at.n, at.c, 0, 0);
    Value result = kind == PoolKind::max ? -infinity<Value> : Value{0};
    for (std::int64_t r = in_rows.begin; r < in_rows.end; ++r) {
      const Stored* line = plane + (rows.first(at.h) + r * rows.dilation) * x_step.h;
      for (std::int64_t s = in_columns.begin; s < in_columns.end; ++s) {
        const auto value =
            convert<Value>(line[(columns.first(at.w) + s * columns.dilation) * x_step.w]);
        if constexpr (kind == PoolKind::average)
          result += value;
        else if (value > result || value != value)  // once NaN, nothing compares greater
          result = value;
      }
    }
    if constexpr (kind == PoolKind::average)
      result /= static_cast<Value>(rows.places(at.h, count_padding)) *
                static_cast<Value>(columns.places(at.w, count_padding));
    y[y_step.offset(at.n, at.c, at.h, at.w)] = convert<Stored>(result);
  }

 private:
  // What moves nothing may be any number: a stride to no second output, dilation of one tap.
  Pool(const PoolLaunch& call, const Extents& from, const Extents& to, const PoolGeometry& g)
      : rows{from[2],
             g.window.h,
             to[2] > 1 ? g.stride.h : 0,
             g.window.h > 1 ? g.dilation.h : 1,
             g.padding.top,
             g.padding.bottom},
        columns{from[3],
                g.window.w,
                to[3] > 1 ? g.stride.w : 0,
                g.window.w > 1 ? g.dilation.w : 1,
                g.padding.left,
                g.padding.right},
        c(to[1]),
        p(to[2]),
        q(to[3]),
        x_step(from, call.x.strides()),
        y_step(to, call.y.strides()),
        count_padding(g.count_padding),
        x(static_cast<const Stored*>(call.x.data())),
        y(static_cast<Stored*>(call.y.data())) {}
};

}  // namespace

void pool(const PoolLaunch& call, const Instance& instance) {
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      const auto all = all_elements(space, call.y.extents());
      if (call.geometry.kind == PoolKind::max)
        Kokkos::parallel_for("plumb.pool.max", all, Pool<PoolKind::max, Stored>(call));
      else
        Kokkos::parallel_for("plumb.pool.average", all, Pool<PoolKind::average, Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
