// A convolution with all its axes and boundaries, for kernels that take any problem.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "cuda_kernels/primitives/boundary.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// One axis of the image, and of the filter along it.
template <class Index>
struct ConvAxis {
  Index extent, taps, outputs, stride, dilation, before;
  Boundary boundary;
  Index x_step, w_step, y_step;  ///< strides in elements

  /// Where the filter's first tap lies for an output.
  __device__ Index first(Index output) const { return output * stride - before; }
  /// Returns the coordinate that a tap reads, or -1 where it is left out.
  __device__ Index source(Index first, Index tap) const {
    return at_boundary(boundary, first + tap * dilation, extent);
  }
};

template <class Index>
struct DeepShape {
  Index group_c;              ///< C/G
  Divisor<Index> k, group_k;  ///< K, K/G
  Divisor<Index> z, p, q;
  ConvAxis<Index> depth, rows, columns;
  Index x_n, x_c, w_k, w_c, y_n, y_k;  ///< strides in elements

  explicit DeepShape(const ConvProblem& problem)
      : DeepShape(problem, problem.x_extents(), problem.w_extents(), problem.y_extents()) {}

 private:
  DeepShape(const ConvProblem& p, const Extents& x, const Extents& w, const Extents& y)
      : group_c(static_cast<Index>(p.c / p.groups)),
        k(p.k),
        group_k(p.k / p.groups),
        z(p.z()),
        p(p.p()),
        q(p.q()),
        depth(axis(p, p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front, p.boundary.d,
                   p.has_depth() ? x.rank() - 3 : x.rank())),
        rows(axis(p, p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top, p.boundary.h,
                  x.rank() - 2)),
        columns(axis(p, p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left, p.boundary.w,
                     x.rank() - 1)),
        x_n(step<Index>(x, p.x_strides, 0)),
        x_c(step<Index>(x, p.x_strides, 1)),
        w_k(step<Index>(w, p.w_strides, 0)),
        w_c(step<Index>(w, p.w_strides, 1)),
        y_n(step<Index>(y, p.y_strides, 0)),
        y_k(step<Index>(y, p.y_strides, 1)) {}

  /// Behind the last dimension there is an axis of extent 1. A stride to no second output and a
  /// dilation of one tap move nothing and may be any number.
  static ConvAxis<Index> axis(const ConvProblem& p, std::int64_t extent, std::int64_t taps,
                              std::int64_t outputs, std::int64_t stride, std::int64_t dilation,
                              std::int64_t before, Boundary boundary, int dimension) {
    const auto along = [&](const Extents& extents, const Strides& strides) {
      return dimension < extents.rank() ? step<Index>(extents, strides, dimension) : Index{0};
    };
    return {.extent = static_cast<Index>(extent),
            .taps = static_cast<Index>(taps),
            .outputs = static_cast<Index>(outputs),
            .stride = outputs > 1 ? static_cast<Index>(stride) : 0,
            .dilation = taps > 1 ? static_cast<Index>(dilation) : 0,
            .before = static_cast<Index>(before),
            .boundary = boundary,
            .x_step = along(p.x_extents(), p.x_strides),
            .w_step = along(p.w_extents(), p.w_strides),
            .y_step = along(p.y_extents(), p.y_strides)};
  }
};

/// Says whether 32 bits hold every count, coordinate and offset of DeepShape.
inline bool deep_fits_32_bits(const ConvProblem& p) {
  const auto swept = [](std::int64_t extent, std::int64_t before, std::int64_t after) {
    return 2.0 * static_cast<double>(extent) + static_cast<double>(before) +
           static_cast<double>(after);
  };
  return std::max({reach(p.x_extents(), p.x_strides), reach(p.w_extents(), p.w_strides),
                   reach(p.y_extents(), p.y_strides), count(p.y_extents()), count(p.w_extents()),
                   swept(p.d, p.padding.front, p.padding.back),
                   swept(p.h, p.padding.top, p.padding.bottom),
                   swept(p.w, p.padding.left, p.padding.right)}) < index32_limit;
}

/// Returns the sum over c, t, r, s of the output (z, p, q). `x` addresses the image's first channel
/// of the group, `w` the filter.
template <class Accumulate, class Stored, class Index>
__device__ Accumulate deep_sum(const DeepShape<Index>& shape, const Stored* x, const Stored* w,
                               Index z, Index p, Index q) {
  const ConvAxis<Index>&depth = shape.depth, &rows = shape.rows, &columns = shape.columns;
  const Index first_d = depth.first(z), first_h = rows.first(p), first_w = columns.first(q);
  Accumulate sum = 0;
  for (Index c = 0; c < shape.group_c; ++c)
    for (Index t = 0; t < depth.taps; ++t) {
      const Index d = depth.source(first_d, t);
      if (d < 0) continue;
      for (Index r = 0; r < rows.taps; ++r) {
        const Index h = rows.source(first_h, r);
        if (h < 0) continue;
        const Stored* const line = x + c * shape.x_c + d * depth.x_step + h * rows.x_step;
        const Stored* const taps = w + c * shape.w_c + t * depth.w_step + r * rows.w_step;
        for (Index s = 0; s < columns.taps; ++s) {
          const Index v = columns.source(first_w, s);
          if (v < 0) continue;
          sum = fma(convert<Accumulate>(line[v * columns.x_step]),
                    convert<Accumulate>(taps[s * columns.w_step]), sum);
        }
      }
    }
  return sum;
}

}  // namespace plumb::cuda
