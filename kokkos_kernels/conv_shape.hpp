// A convolution as kernels see it, one output as its definition sums it, and what is done to a
// finished sum.
#pragma once

#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/scalar.hpp"
#include "plumb/conv.hpp"

namespace plumb::kokkos {

struct ConvShape {
  std::int64_t n, k, z, p, q;
  std::int64_t groups, group_c, group_k;  ///< G, C/G, K/G
  Axis planes, rows, columns;             ///< along D, H and W
  bool padded;                            ///< some taps may fall outside the image
  Steps x_step, y_step, w_step;

  explicit ConvShape(const ConvProblem& problem)
      : n(problem.n),
        k(problem.k),
        z(problem.z()),
        p(problem.p()),
        q(problem.q()),
        groups(problem.groups),
        group_c(problem.c / problem.groups),
        group_k(problem.k / problem.groups),
        planes(problem.d, problem.t, problem.stride.d, problem.dilation.d, problem.padding.front, z,
               problem.boundary.d),
        rows(problem.h, problem.r, problem.stride.h, problem.dilation.h, problem.padding.top, p,
             problem.boundary.h),
        columns(problem.w, problem.s, problem.stride.w, problem.dilation.w, problem.padding.left, q,
                problem.boundary.w),
        padded(problem.padding != Padding{}),
        x_step(problem.x_extents(), problem.x_strides),
        y_step(problem.y_extents(), problem.y_strides),
        w_step(problem.w_extents(), problem.w_strides) {}
};

/// What the filter covers at one output: the coordinates of its first tap, and the taps that read
/// something.
struct Window {
  std::int64_t first_d, first_h, first_w;
  Taps planes, rows, columns;
};
KOKKOS_INLINE_FUNCTION Window window_at(const ConvShape& shape, std::int64_t z, std::int64_t p,
                                        std::int64_t q) {
  const std::int64_t d = shape.planes.first(z), h = shape.rows.first(p), w = shape.columns.first(q);
  return {d, h, w, shape.planes.taken(d), shape.rows.taken(h), shape.columns.taken(w)};
}

/// Adds the products of one channel, which `x` and `w` address, to `sum`. Taps outside the image
/// are left out along axes of zeros: they contribute nothing even where the filter is Inf or NaN.
template <class Sum, class Stored, class Weight>
KOKKOS_INLINE_FUNCTION Sum add_channel(Sum sum, const ConvShape& shape, const Stored* x,
                                       const Weight* w, const Window& window) {
  for (std::int64_t t = window.planes.begin; t < window.planes.end; ++t) {
    const std::int64_t d = shape.planes.source(window.first_d, t);
    for (std::int64_t r = window.rows.begin; r < window.rows.end; ++r) {
      const std::int64_t h = shape.rows.source(window.first_h, r);
      const Stored* line = x + d * shape.x_step.d + h * shape.x_step.h;
      const Weight* taps = w + t * shape.w_step.d + r * shape.w_step.h;
      for (std::int64_t s = window.columns.begin; s < window.columns.end; ++s)
        sum += convert<Sum>(line[shape.columns.source(window.first_w, s) * shape.x_step.w]) *
               convert<Sum>(taps[s * shape.w_step.w]);
    }
  }
  return sum;
}

/// Output (n, k, z, p, q) before bias and activation, in the order of the definition.
template <class Sum, class Stored, class Weight>
KOKKOS_INLINE_FUNCTION Sum direct_sum(const ConvShape& shape, const Stored* x, const Weight* w,
                                      const Place& output) {
  const Window window = window_at(shape, output.d, output.h, output.w);
  const Stored* image =
      x + output.n * shape.x_step.n + output.c / shape.group_k * shape.group_c * shape.x_step.c;
  const Weight* filter = w + output.c * shape.w_step.n;
  Sum sum = 0;
  for (std::int64_t c = 0; c < shape.group_c; ++c)
    sum = add_channel(sum, shape, image + c * shape.x_step.c, filter + c * shape.w_step.c, window);
  return sum;
}

/// What becomes of a finished sum: bias, what y holds, activation, rounding to the stored type.
template <class Stored>
struct Epilogue {
  const Stored* bias;  ///< K dense elements, or null
  bool rectify, accumulate;

  explicit Epilogue(const ConvLaunch& launch)
      : bias(static_cast<const Stored*>(launch.bias)),
        rectify(launch.activation == Activation::relu),
        accumulate(launch.accumulate) {}

  /// Stores the sum of output channel `k` at `y`.
  template <class Sum>
  KOKKOS_INLINE_FUNCTION void operator()(Sum sum, std::int64_t k, Stored* y) const {
    if (bias) sum += convert<Sum>(bias[k]);
    if (accumulate) sum += convert<Sum>(*y);
    if (rectify && sum < 0) sum = 0;  // this way round, NaN stays NaN
    *y = convert<Stored>(sum);
  }
};

}  // namespace plumb::kokkos
