// Pooling: y[n,c,z,p,q] is the maximum or the average of x over a window, one work item an
// output.
//
// Tiling: none; neighbouring work items are neighbouring outputs in the order N C Z P Q.
// Bytes: x and y once; windows that overlap read x again from caches.
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/pool_axis.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <PoolKind kind, class Stored>
struct Pool {
  using Value = ComputeType<Stored>;

  PoolAxis planes, rows, columns;
  std::int64_t c, z, p, q;
  Steps x_step, y_step;
  bool count_padding;
  const Stored* x;
  Stored* y;

  explicit Pool(const PoolLaunch& call)
      : Pool(call, call.x.extents(), call.y.extents(), call.geometry) {}

  KOKKOS_FUNCTION void operator()(std::int64_t output) const {
    const Place at = place_of(output, c, z, p, q);
    const std::int64_t d = planes.first(at.d), h = rows.first(at.h), w = columns.first(at.w);
    const Taps in_planes = planes.taken(d), in_rows = rows.taken(h), in_columns = columns.taken(w);
    const Stored* image = x + x_step.offset(at.n, at.c, 0, 0, 0);
    Value result = kind == PoolKind::max ? -infinity<Value> : Value{0};
    for (std::int64_t t = in_planes.begin; t < in_planes.end; ++t)
      for (std::int64_t r = in_rows.begin; r < in_rows.end; ++r) {
        const Stored* line =
            image + (d + t * planes.dilation) * x_step.d + (h + r * rows.dilation) * x_step.h;
        for (std::int64_t s = in_columns.begin; s < in_columns.end; ++s)
          result = joined(result, convert<Value>(line[(w + s * columns.dilation) * x_step.w]));
      }
    if constexpr (kind == PoolKind::average)
      result /= static_cast<Value>(planes.places(at.d, count_padding)) *
                static_cast<Value>(rows.places(at.h, count_padding)) *
                static_cast<Value>(columns.places(at.w, count_padding));
    y[y_step.offset(at.n, at.c, at.d, at.h, at.w)] = convert<Stored>(result);
  }

 private:
  KOKKOS_FUNCTION static Value joined(Value result, Value value) {
    if constexpr (kind == PoolKind::average) return result + value;
    return value > result || value != value ? value : result;  // once NaN, nothing compares greater
  }

  Pool(const PoolLaunch& call, const Extents& from, const Extents& to, const PoolGeometry& g)
      : planes(from[2], g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back,
               to[2]),
        rows(from[3], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom, to[3]),
        columns(from[4], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right,
                to[4]),
        c(to[1]),
        z(to[2]),
        p(to[3]),
        q(to[4]),
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
