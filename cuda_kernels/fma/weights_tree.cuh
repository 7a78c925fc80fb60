// Backward weights in the order of GradientTree: what the threads of weights_tree.cu do.
#pragma once

#include <cstdint>

#include "plumb/conv.hpp"
#include "plumb/gradient_tree.hpp"

namespace plumb::cuda::weights_tree {

/// One axis of the image, and of dy along it; steps are strides in elements.
struct Axis {
  std::int64_t extent, taps, outputs, stride, dilation, before, x_step, y_step, w_step;

  /// Returns the coordinate that a tap of an output reads, or -1 outside the image.
  __device__ std::int64_t source(std::int64_t output, std::int64_t tap) const {
    const std::int64_t at = output * stride + tap * dilation - before;
    return at >= 0 && at < extent ? at : -1;
  }
};

struct Shape {
  std::int64_t elements, terms, taps;  ///< of dw; of a filter; of a channel of it
  std::int64_t group_k, group_c;
  std::int64_t x_n, x_c, y_n, y_k, w_k, w_c;
  Axis depth, rows, columns;
  std::int64_t planes, planes_together, segment_rows, of_plane, segments;
  std::int64_t segments_of_part, parts;
  bool accumulate;

  Shape(const ConvProblem& p, const GradientTree& tree, std::int64_t part, bool adds)
      : elements(p.k * (p.c / p.groups) * p.t * p.r * p.s),
        terms(p.c / p.groups * p.t * p.r * p.s),
        taps(p.t * p.r * p.s),
        group_k(p.k / p.groups),
        group_c(p.c / p.groups),
        x_n(step(p.x_extents(), p.x_strides, 0)),
        x_c(step(p.x_extents(), p.x_strides, 1)),
        y_n(step(p.y_extents(), p.y_strides, 0)),
        y_k(step(p.y_extents(), p.y_strides, 1)),
        w_k(step(p.w_extents(), p.w_strides, 0)),
        w_c(step(p.w_extents(), p.w_strides, 1)),
        depth(axis(p, 3, p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front)),
        rows(axis(p, 2, p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top)),
        columns(axis(p, 1, p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left)),
        planes(tree.planes),
        planes_together(tree.planes_together),
        segment_rows(tree.rows),
        of_plane(tree.of_plane),
        segments(tree.segments),
        segments_of_part(part),
        parts((tree.segments + part - 1) / part),
        accumulate(adds) {}

 private:
  /// A stride along an extent of one may be anything.
  static std::int64_t step(const Extents& extents, const Strides& strides, int dimension) {
    return extents[dimension] > 1 ? strides[dimension] : 0;
  }
  /// The axis that is `from_last` dimensions from behind the last; images without one have no
  /// steps.
  static Axis axis(const ConvProblem& p, int from_last, std::int64_t extent, std::int64_t of_filter,
                   std::int64_t outputs, std::int64_t stride, std::int64_t dilation,
                   std::int64_t before) {
    const auto along = [&](const Extents& extents, const Strides& strides) {
      const int dimension = extents.rank() - from_last;
      return dimension > 1 ? step(extents, strides, dimension) : std::int64_t{0};
    };
    return {extent,
            of_filter,
            outputs,
            stride,
            dilation,
            before,
            along(p.x_extents(), p.x_strides),
            along(p.y_extents(), p.y_strides),
            along(p.w_extents(), p.w_strides)};
  }
};

/// An element of dw.
struct Element {
  std::int64_t k, c, t, r, s;

  __device__ Element(const Shape& shape, std::int64_t index) {
    k = index / shape.terms;
    const std::int64_t term = index % shape.terms;
    c = term / shape.taps;
    s = term % shape.columns.taps;
    r = term / shape.columns.taps % shape.rows.taps;
    t = term / (shape.columns.taps * shape.rows.taps) % shape.depth.taps;
  }
  __device__ std::int64_t offset(const Shape& shape) const {
    return k * shape.w_k + c * shape.w_c + t * shape.depth.w_step + r * shape.rows.w_step +
           s * shape.columns.w_step;
  }
};

/// Adds the products of a row of dy to sixteen chains; `x` addresses the row of the image that the
/// tap reads. Sixteen columns are taken at a time, so that the chains stay in registers.
template <class Sum, class Stored>
__device__ void add_row(const Shape& shape, const Element& at, const Stored* x, const Stored* dy,
                        Sum (&chains)[GradientTree::lanes]) {
  const Axis& columns = shape.columns;
  for (std::int64_t first = 0; first < columns.outputs; first += GradientTree::lanes) {
#pragma unroll
    for (int i = 0; i < GradientTree::lanes; ++i) {
      const std::int64_t q = first + i;
      const std::int64_t w = q < columns.outputs ? columns.source(q, at.s) : -1;
      if (w >= 0)
        chains[i] = fma(convert<Sum>(x[w * columns.x_step]), convert<Sum>(dy[q * columns.y_step]),
                        chains[i]);
    }
  }
}

template <class Sum, class Stored>
__device__ Sum segment_sum(const Shape& shape, const Element& at, const Stored* x, const Stored* dy,
                           std::int64_t segment) {
  const std::int64_t plane = segment / shape.of_plane * shape.planes_together;
  const std::int64_t plane_end = min(plane + shape.planes_together, shape.planes);
  const std::int64_t row = segment % shape.of_plane * shape.segment_rows;
  const std::int64_t row_end = min(row + shape.segment_rows, shape.rows.outputs);
  Sum chains[GradientTree::lanes] = {};
  for (std::int64_t i = plane; i < plane_end; ++i) {
    const std::int64_t n = i / shape.depth.outputs, z = i % shape.depth.outputs;
    const std::int64_t d = shape.depth.source(z, at.t);
    if (d < 0) continue;
    for (std::int64_t p = row; p < row_end; ++p) {
      const std::int64_t h = shape.rows.source(p, at.r);
      if (h < 0) continue;
      add_row(shape, at, x + n * shape.x_n + d * shape.depth.x_step + h * shape.rows.x_step,
              dy + n * shape.y_n + z * shape.depth.y_step + p * shape.rows.y_step, chains);
    }
  }
#pragma unroll
  for (int half = GradientTree::lanes / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) chains[i] += chains[i + half];
  return chains[0];
}

/// Sums a part of the segments: level i holds the sum of 2^i of them that waits for the one beside
/// it.
template <class Sum, class Stored>
__device__ Sum part_sum(const Shape& shape, const Element& at, const Stored* x, const Stored* dy,
                        std::int64_t part) {
  x += (at.k / shape.group_k * shape.group_c + at.c) * shape.x_c;
  dy += at.k * shape.y_k;
  const std::int64_t first = part * shape.segments_of_part;
  const std::int64_t end = min(first + shape.segments_of_part, shape.segments);
  Sum levels[48];
  std::int64_t pushed = 0;
  for (; first + pushed < end; ++pushed) {
    Sum carry = segment_sum<Sum>(shape, at, x, dy, first + pushed);
    int level = 0;
    for (; pushed >> level & 1; ++level) carry = levels[level] + carry;
    levels[level] = carry;
  }
  Sum sum = 0;
  bool any = false;
  for (int level = 0; pushed >> level != 0; ++level) {
    if ((pushed >> level & 1) == 0) continue;
    sum = any ? levels[level] + sum : levels[level];
    any = true;
  }
  return sum;
}

/// Adds the parts of an element, `step` apart, by the same tree. It overwrites them.
template <class Sum>
__device__ Sum tree_sum(Sum* parts, std::int64_t count, std::int64_t step) {
  if (count == 0) return 0;
  for (std::int64_t apart = 1; apart < count; apart *= 2)
    for (std::int64_t i = 0; i + apart < count; i += 2 * apart)
      parts[i * step] += parts[(i + apart) * step];
  return parts[0];
}

}  // namespace plumb::cuda::weights_tree
