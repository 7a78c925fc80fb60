// Convolution in the order that is specified for reproducible sums: each output is one chain of
// fused multiply-adds in the order of the definition, one work item an output; and backward weights
// by GradientTree, one work item an element of dw.
//
// Tiling: none; neighbouring work items are neighbouring outputs in the order N K Z P Q, or
//   neighbouring elements of dw in the order K C T R S.
// Bytes: as kokkos.conv.direct; for dw, x and dy once for each element, from caches beyond the
//   first.
// Wins: never; it is there for its bits. On a host without FMA in the instructions that Kokkos was
//   compiled for, each multiply-add is a call of the C library's.
#include <cmath>

#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"
#include "plumb/gradient_tree.hpp"

namespace plumb::kokkos {
namespace {

KOKKOS_INLINE_FUNCTION float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
KOKKOS_INLINE_FUNCTION double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

/// Rounds once to the stored type; a zero has no sign.
template <class Stored, class Sum>
KOKKOS_INLINE_FUNCTION Stored rounded(Sum sum) {
  const auto stored = convert<Stored>(sum);
  return convert<Stored>(convert<ComputeType<Stored>>(stored) + ComputeType<Stored>{0});
}

template <class Sum, class Stored>
struct Ordered {
  ConvShape shape;
  const Stored* x;
  const Stored* w;
  Stored* y;
  Epilogue<Stored> epilogue;

  KOKKOS_FUNCTION void operator()(std::int64_t output) const {
    const Place at = place_of(output, shape.k, shape.z, shape.p, shape.q);
    Sum sum = chain(at);
    if (epilogue.bias) sum += convert<Sum>(epilogue.bias[at.c]);
    Stored& to = y[shape.y_step.offset(at.n, at.c, at.d, at.h, at.w)];
    if (epilogue.accumulate) sum += convert<Sum>(to);
    if (epilogue.rectify && sum < 0) sum = 0;  // this way round, NaN stays NaN
    to = rounded<Stored>(sum);
  }

  KOKKOS_FUNCTION Sum chain(const Place& at) const {
    const Window window = window_at(shape, at.d, at.h, at.w);
    const Stored* image =
        x + at.n * shape.x_step.n + at.c / shape.group_k * shape.group_c * shape.x_step.c;
    const Stored* filter = w + at.c * shape.w_step.n;
    Sum sum = 0;
    for (std::int64_t c = 0; c < shape.group_c; ++c)
      for (std::int64_t t = window.planes.begin; t < window.planes.end; ++t) {
        const std::int64_t d = shape.planes.source(window.first_d, t);
        for (std::int64_t r = window.rows.begin; r < window.rows.end; ++r) {
          const std::int64_t h = shape.rows.source(window.first_h, r);
          const Stored* line = image + c * shape.x_step.c + d * shape.x_step.d + h * shape.x_step.h;
          const Stored* taps =
              filter + c * shape.w_step.c + t * shape.w_step.d + r * shape.w_step.h;
          for (std::int64_t s = window.columns.begin; s < window.columns.end; ++s)
            sum =
                fused(convert<Sum>(line[shape.columns.source(window.first_w, s) * shape.x_step.w]),
                      convert<Sum>(taps[s * shape.w_step.w]), sum);
        }
      }
    return sum;
  }
};

/// Backward weights. Of the shape y is dy.
template <class Sum, class Stored>
struct OrderedWeights {
  ConvShape shape;
  GradientTree tree;
  const Stored* x;
  const Stored* dy;
  Stored* dw;
  bool accumulates;

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    const Place at =  // k c t r s
        place_of(element, shape.group_c, shape.planes.taps, shape.rows.taps, shape.columns.taps);
    // Level i holds the sum of 2^i segments that waits for the one beside it.
    Sum levels[48];
    std::int64_t pushed = 0;
    for (; pushed < tree.segments; ++pushed) {
      Sum carry = segment(pushed, at);
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
    Stored& to = dw[shape.w_step.offset(at.n, at.c, at.d, at.h, at.w)];
    if (accumulates) sum += convert<Sum>(to);
    to = rounded<Stored>(sum);
  }

  KOKKOS_FUNCTION Sum segment(std::int64_t index, const Place& at) const {
    constexpr int lanes = GradientTree::lanes;
    const std::int64_t first = index / tree.of_plane * tree.planes_together;
    const std::int64_t planes_end =
        first + tree.planes_together < tree.planes ? first + tree.planes_together : tree.planes;
    const std::int64_t row = index % tree.of_plane * tree.rows;
    const std::int64_t rows_end = row + tree.rows < shape.p ? row + tree.rows : shape.p;
    const Stored* const image = x + (at.n / shape.group_k * shape.group_c + at.c) * shape.x_step.c;
    const Stored* const gradient = dy + at.n * shape.y_step.c;
    Sum sums[lanes] = {};
    for (std::int64_t plane = first; plane < planes_end; ++plane) {
      const std::int64_t n = plane / shape.z, z = plane % shape.z;
      const std::int64_t d = shape.planes.source(shape.planes.first(z), at.d);
      if (d < 0) continue;
      for (std::int64_t p = row; p < rows_end; ++p) {
        const std::int64_t h = shape.rows.source(shape.rows.first(p), at.h);
        if (h < 0) continue;
        const Stored* const line =
            image + n * shape.x_step.n + d * shape.x_step.d + h * shape.x_step.h;
        const Stored* const with =
            gradient + n * shape.y_step.n + z * shape.y_step.d + p * shape.y_step.h;
        for (std::int64_t q = 0; q < shape.q; ++q) {
          const std::int64_t v = shape.columns.source(shape.columns.first(q), at.w);
          if (v < 0) continue;
          Sum& sum = sums[q % lanes];
          sum = fused(convert<Sum>(line[v * shape.x_step.w]),
                      convert<Sum>(with[q * shape.y_step.w]), sum);
        }
      }
    }
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }
};

template <class Sum, class... Stored>
void launch(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const bool weights = problem.direction == Direction::backward_weights;
  const std::int64_t items = element_count(output_of(problem).extents);
  with_stored<Stored...>(problem.dtype, [&]<class Element>(Element) {
    const auto* const x = static_cast<const Element*>(call.x);
    const auto* const w = static_cast<const Element*>(call.w);
    auto* const y = static_cast<Element*>(call.y);
    with_instance(instance_of(call), [&]<class Space>(const Space& space) {
      const Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>> all(space, 0, items);
      if (weights)
        Kokkos::parallel_for("plumb.conv.ordered_weights", all,
                             OrderedWeights<Sum, Element>{ConvShape(problem), GradientTree(problem),
                                                          x, w, y, call.accumulate});
      else
        Kokkos::parallel_for(
            "plumb.conv.ordered", all,
            Ordered<Sum, Element>{ConvShape(problem), x, w, y, Epilogue<Element>(call)});
    });
  });
}

/// Backward weights is taken as it is; backward data is made of forward convolutions.
template <auto takes>
Support takes_weights_too(const ConvProblem& given, const DeviceInfo& device) {
  ConvProblem problem = given;
  if (problem.direction == Direction::backward_weights) problem.direction = Direction::forward;
  return takes(problem, device);
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return model_seconds(problem, device, problem.flop(), 1.0 / 128);
}

/// The most additions on the way of a product to its sum.
double chain(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights || problem.n == 0)
    return static_cast<double>(problem.terms());
  return GradientTree(problem).chain(problem.q());
}

constexpr Numerics ordered(Numerics numerics) {
  numerics.reproducible = numerics.invariant = true;
  numerics.chain = chain;
  return numerics;
}

/// Gradients by weights too; for its bits alone.
constexpr ConvAlgorithm with_weights(ConvAlgorithm algorithm) {
  algorithm.forced_only = true;
  algorithm.takes_backward_weights = true;
  return algorithm;
}

}  // namespace

const ConvAlgorithm ordered_fp32 = with_weights(
    entry<takes_weights_too<takes_fp32>, estimate, launch<float, float, Half, BFloat16>>(
        "kokkos.conv.ordered.fp32", ordered(fp32_sums)));
const ConvAlgorithm ordered_fp64 =
    with_weights(entry<takes_weights_too<takes_fp64>, estimate, launch<double, double, float>>(
        "kokkos.conv.ordered.fp64", ordered(fp64_sums)));

}  // namespace plumb::kokkos
