// A convolution as kernels see it, one output as its definition sums it, and what is done to a
// finished sum.
#pragma once

#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/scalar.hpp"
#include "plumb/conv.hpp"

namespace plumb::kokkos {

struct ConvShape {
  std::int64_t n, h, w, k, p, q, r, s;
  std::int64_t groups, group_c, group_k;  ///< G, C/G, K/G
  std::int64_t stride_h, stride_w, dilation_h, dilation_w, top, left;
  bool padded;  ///< some taps may fall outside the image
  Steps x_step, y_step, w_step;

  explicit ConvShape(const ConvProblem& problem)
      : n(problem.n),
        h(problem.h),
        w(problem.w),
        k(problem.k),
        p(problem.p()),
        q(problem.q()),
        r(problem.r),
        s(problem.s),
        groups(problem.groups),
        group_c(problem.c / problem.groups),
        group_k(problem.k / problem.groups),
        // What moves nothing may be any number: a stride to no second output, dilation of one tap.
        stride_h(p > 1 ? problem.stride.h : 0),
        stride_w(q > 1 ? problem.stride.w : 0),
        dilation_h(r > 1 ? problem.dilation.h : 1),
        dilation_w(s > 1 ? problem.dilation.w : 1),
        top(problem.padding.top),
        left(problem.padding.left),
        padded(problem.padding != Padding{}),
        x_step(problem.x_extents(), problem.x_strides),
        y_step(problem.y_extents(), problem.y_strides),
        w_step(problem.w_extents(), problem.w_strides) {}
};

/// Adds the products of one channel to `sum`; `x` and `w` address the channel, whose first tap lies
/// at (first_h, first_w). Taps outside the image are left out: they contribute nothing even where
/// the filter is Inf or NaN.
template <class Sum, class Stored>
KOKKOS_INLINE_FUNCTION Sum add_channel(Sum sum, const ConvShape& shape, const Stored* x,
                                       const Stored* w, std::int64_t first_h, std::int64_t first_w,
                                       const Taps& rows, const Taps& columns) {
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t h = first_h + r * shape.dilation_h;
    for (std::int64_t s = columns.begin; s < columns.end; ++s)
      sum +=
          convert<Sum>(x[h * shape.x_step.h + (first_w + s * shape.dilation_w) * shape.x_step.w]) *
          convert<Sum>(w[r * shape.w_step.h + s * shape.w_step.w]);
  }
  return sum;
}

/// Output (n, k, p, q) before bias and activation, in the order of the definition.
template <class Sum, class Stored>
KOKKOS_INLINE_FUNCTION Sum direct_sum(const ConvShape& shape, const Stored* x, const Stored* w,
                                      std::int64_t n, std::int64_t k, std::int64_t p,
                                      std::int64_t q) {
  const std::int64_t first_h = p * shape.stride_h - shape.top;
  const std::int64_t first_w = q * shape.stride_w - shape.left;
  const Taps rows = taps_inside(first_h, shape.h, shape.r, shape.dilation_h);
  const Taps columns = taps_inside(first_w, shape.w, shape.s, shape.dilation_w);
  const Stored* image = x + shape.x_step.offset(n, k / shape.group_k * shape.group_c, 0, 0);
  const Stored* filter = w + k * shape.w_step.n;
  Sum sum = 0;
  for (std::int64_t c = 0; c < shape.group_c; ++c)
    sum = add_channel(sum, shape, image + c * shape.x_step.c, filter + c * shape.w_step.c, first_h,
                      first_w, rows, columns);
  return sum;
}

/// Bias, activation, rounding to the stored type.
template <class Stored>
struct Epilogue {
  const Stored* bias;  ///< K dense elements, or null
  bool rectify;

  explicit Epilogue(const ConvLaunch& launch)
      : bias(static_cast<const Stored*>(launch.bias)),
        rectify(launch.activation == Activation::relu) {}

  template <class Sum>
  KOKKOS_INLINE_FUNCTION Stored operator()(Sum sum, std::int64_t k) const {
    if (bias) sum += convert<Sum>(bias[k]);
    if (rectify && sum < 0) sum = 0;  // this way round, NaN stays NaN
    return convert<Stored>(sum);
  }
};

}  // namespace plumb::kokkos
