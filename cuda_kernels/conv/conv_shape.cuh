// A convolution as kernels see it: sizes, strides, and the divisors that take indices apart.
#pragma once

#include <algorithm>

#include "cuda_kernels/primitives/index.cuh"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Strides, in elements, of a tensor N C H W; those of y are of N K P Q.
template <class Index>
struct ImageSteps {
  Index n, c, h, w;

  ImageSteps(const Extents& extents, const Strides& strides)
      : n(step<Index>(extents, strides, 0)),
        c(step<Index>(extents, strides, 1)),
        h(step<Index>(extents, strides, 2)),
        w(step<Index>(extents, strides, 3)) {}
};

/// Strides, in elements, of the filters K C/G R S.
template <class Index>
struct FilterSteps {
  Index k, c, r, s;
  Index term;      ///< step from one of the C/G R S terms to the next, if it is constant
  bool is_matrix;  ///< whether `term` is constant: the filters are then a matrix of K rows

  FilterSteps(const Extents& extents, const Strides& strides)
      : k(step<Index>(extents, strides, 0)),
        c(step<Index>(extents, strides, 1)),
        r(step<Index>(extents, strides, 2)),
        s(step<Index>(extents, strides, 3)) {
    term = extents[3] > 1 ? s : extents[2] > 1 ? r : c;
    const Index row = static_cast<Index>(extents[3]) * term;
    const Index channel = static_cast<Index>(extents[2]) * row;
    is_matrix = (extents[2] == 1 || r == row) && (extents[1] == 1 || c == channel);
  }
};

template <class Index>
struct ConvShape {
  Index n, h, w;
  Index group_c;              ///< C/G
  Index terms;                ///< C/G R S
  Divisor<Index> k, group_k;  ///< K, K/G
  Divisor<Index> r, s, p, q;
  // A dilation between no taps and a stride to no second pixel move nothing and may be any number.
  Divisor<Index> dilation_h, dilation_w;
  Index stride_h, stride_w;
  Index top, left;
  bool padded;  ///< some taps may fall outside the image
  ImageSteps<Index> x_step, y_step;
  FilterSteps<Index> w_step;

  explicit ConvShape(const ConvProblem& problem)
      : n(static_cast<Index>(problem.n)),
        h(static_cast<Index>(problem.h)),
        w(static_cast<Index>(problem.w)),
        group_c(static_cast<Index>(problem.c / problem.groups)),
        terms(static_cast<Index>(problem.terms())),
        k(problem.k),
        group_k(problem.k / problem.groups),
        r(problem.r),
        s(problem.s),
        p(problem.p()),
        q(problem.q()),
        dilation_h(problem.r > 1 ? problem.dilation.h : 1),
        dilation_w(problem.s > 1 ? problem.dilation.w : 1),
        stride_h(problem.p() > 1 ? static_cast<Index>(problem.stride.h) : 0),
        stride_w(problem.q() > 1 ? static_cast<Index>(problem.stride.w) : 0),
        top(static_cast<Index>(problem.padding.top)),
        left(static_cast<Index>(problem.padding.left)),
        padded(problem.padding != Padding{}),
        x_step(problem.x_extents(), problem.x_strides),
        y_step(problem.y_extents(), problem.y_strides),
        w_step(problem.w_extents(), problem.w_strides) {}
};

/// Says whether 32 bits hold every count, coordinate and offset of ConvShape and direct_sum(),
/// which form but do not use the offsets of taps in the padding and of one tap beyond the last.
inline bool fits_32_bits(const ConvProblem& problem) {
  const bool deep = problem.has_depth();
  const auto swept = [](std::int64_t extent, std::int64_t before, std::int64_t after,
                        std::int64_t taps, std::int64_t dilation) {
    return before + extent + after + (taps > 1 ? dilation : 1);
  };
  const Extents x = problem.x_extents(), w = problem.w_extents(), y = problem.y_extents();
  const Padding& padding = problem.padding;
  const std::int64_t h =
      swept(problem.h, padding.top, padding.bottom, problem.r, problem.dilation.h);
  const std::int64_t columns =
      swept(problem.w, padding.left, padding.right, problem.s, problem.dilation.w);
  const std::int64_t planes =
      swept(problem.d, padding.front, padding.back, problem.t, problem.dilation.d);
  const auto counting = [](const Extents& extents, Strides strides) {
    for (int i = 0; i < extents.rank(); ++i) strides[i] = step<std::int64_t>(extents, strides, i);
    return strides;
  };
  const Extents x_swept = deep ? Extents{problem.n, problem.c, planes, h, columns}
                               : Extents{problem.n, problem.c, h, columns};
  Extents w_swept = w;
  for (int i = w.rank() - 2; i < w.rank(); ++i) ++w_swept[i];
  const double largest = std::max({
      reach(x_swept, counting(x, problem.x_strides)),
      reach(w_swept, counting(w, problem.w_strides)),
      reach(y, problem.y_strides),
      count(y),
      count(w) / static_cast<double>(problem.k),
      2.0 * static_cast<double>(deep ? planes : 1),
      2.0 * static_cast<double>(h),  // taps_inside() adds a dilation to a coordinate
      2.0 * static_cast<double>(columns),
  });
  return largest < index32_limit;
}

}  // namespace plumb::cuda
