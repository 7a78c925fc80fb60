// The problem that tensors and a geometry make.
#include "conv_tensors.hpp"

#include <fmt/format.h>

#include "ranks.hpp"
#include "refuse_convolution.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// What the indices of the tensors of a rank are.
struct Letters {
  const char *x, *w, *y;
};
Letters letters(int rank) {
  if (rank == 3) return {"N, C, W", "K, C/G, S", "N, K, Q"};
  if (rank == 5) return {"N, C, D, H, W", "K, C/G, T, R, S", "N, K, Z, P, Q"};
  return {"N, C, H, W", "K, C/G, R, S", "N, K, P, Q"};
}

/// Refuses a w whose channels are not C/G, with the number of groups that would fit. What makes no
/// sense by itself is left to check().
void check_channels(const Extents& x, const Extents& w, std::int64_t groups,
                    const TensorNames& names) {
  const std::int64_t c = x[1], per_group = w[1];
  if (groups < 1 || c < 1 || per_group < 1) return;
  const bool whole = c % groups == 0;
  if (whole && c / groups == per_group) return;
  const std::int64_t fitting = c % per_group == 0 ? c / per_group : 0;
  const bool fits = fitting > 0 && w[0] % fitting == 0;
  if (!whole && !fits) return;
  Extents expected = w;
  expected[1] = whole ? c / groups : per_group;
  refuse_convolution(
      fmt::format("{} is {} ({}), {} is {} ({}), groups is {}{}{}", names.w, to_string(w),
                  letters(w.rank()).w, names.x, to_string(x), letters(x.rank()).x, groups,
                  whole ? fmt::format("; expected {} to be {}", names.w, to_string(expected)) : "",
                  fits ? fmt::format("; groups={} would fit", fitting) : ""));
}

void check_ranks(const NamedTensors& tensors) {
  const int rank = tensors.x.rank();
  const TensorNames& names = tensors.names;
  if (rank < 3 || rank > 5)
    refuse_convolution(
        fmt::format("{} has extents {}; expected three to five: N C W, N C H W or N C D H W",
                    names.x, to_string(tensors.x.extents())));
  const auto of_rank = [&](const Extents& extents, const char* name, const char* indices) {
    if (extents.rank() != rank)
      refuse_convolution(fmt::format("{} has extents {}; expected {} as {} of {}: {}", name,
                                     to_string(extents), rank, names.x,
                                     to_string(tensors.x.extents()), indices));
  };
  of_rank(tensors.w.extents(), names.w, letters(rank).w);
  if (!tensors.y.empty()) of_rank(tensors.y.extents(), names.y, letters(rank).y);
}

void check_dtypes(const NamedTensors& tensors) {
  const ConstTensorView &x = tensors.x, &w = tensors.w, &y = tensors.y;
  const TensorNames& names = tensors.names;
  if (w.dtype() != x.dtype() || (!y.empty() && y.dtype() != x.dtype()))
    refuse_convolution(
        fmt::format("{} is {}, {} {}{}; expected one dtype", names.x, to_string(x.dtype()), names.w,
                    to_string(w.dtype()),
                    y.empty() ? "" : fmt::format(", {} {}", names.y, to_string(y.dtype()))));
}

/// What the geometry says of axes that tensors of this rank do not have is for others.
ConvGeometry along_axes(ConvGeometry geometry, int rank) {
  if (rank == 3) {
    geometry.stride.h = geometry.dilation.h = 1;
    geometry.padding.top = geometry.padding.bottom = 0;
  }
  return geometry;
}

/// A problem without a depth drops its padding, which would make planes of the bias alone.
void check_depth(const ConvProblem& problem, int rank) {
  const std::int64_t front = problem.padding.front, back = problem.padding.back;
  if (rank == 5 && !problem.has_depth() && (front != 0 || back != 0))
    refuse_convolution(
        fmt::format("D and T are 1, padded by {} and {}; expected no padding along a depth of "
                    "one plane and one tap",
                    front, back));
}

}  // namespace

ConvProblem problem_of(const NamedTensors& tensors, Direction direction,
                       const ConvGeometry& geometry) {
  check_ranks(tensors);
  check_dtypes(tensors);
  const ConstTensorView &x = tensors.x, &w = tensors.w, &y = tensors.y;
  check_channels(x.extents(), w.extents(), geometry.groups, tensors.names);
  const ConstTensorView image = with_all_axes(x), filter = with_all_axes(w);
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = along_axes(geometry, x.rank());
  problem.direction = direction;
  problem.dtype = x.dtype();
  problem.n = image.extent(0);
  problem.c = image.extent(1);
  problem.d = image.extent(2);
  problem.h = image.extent(3);
  problem.w = image.extent(4);
  problem.k = filter.extent(0);
  problem.t = filter.extent(2);
  problem.r = filter.extent(3);
  problem.s = filter.extent(4);
  problem.x_strides = image.strides();
  problem.w_strides = filter.strides();
  check_depth(problem, x.rank());
  problem = check(problem);
  if (y.empty()) return problem;
  const ConstTensorView output = view_of_rank(y, problem.y_extents());
  if (output.extents() != problem.y_extents())
    refuse_convolution(fmt::format("{} is {}; expected {}", tensors.names.y, to_string(y.extents()),
                                   to_string(problem.y_extents())));
  problem.y_strides = output.strides();
  return check(problem);
}

ConvProblem problem_of(const ConvTensors& tensors, const ConvGeometry& geometry) {
  return problem_of({.x = tensors.x, .w = tensors.w, .y = tensors.y}, Direction::forward, geometry);
}

}  // namespace plumb
