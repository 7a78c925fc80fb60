// The problem by the roles of its axes.
#include <utility>

#include "cuda_kernels/fields/field_cut.hpp"

namespace plumb::cuda {
namespace {

/// The strides of a dimension of extent one have no effect and may be anything.
std::int64_t step(std::int64_t extent, std::int64_t stride) { return extent > 1 ? stride : 0; }

FieldAxis axis_of(const FieldProblem& problem, int axis) {
  const std::int64_t extent = problem.extent[axis], taps = problem.filter[axis];
  const std::int64_t outputs = problem.outputs(axis);
  return {.extent = extent,
          .outputs = outputs,
          .before = problem.before[axis],
          .x_step = step(extent, problem.x_stride[axis + 2]),
          .y_step = step(outputs, problem.y_stride[axis + 2]),
          .w_step = step(taps, problem.w_stride[axis + 2]),
          .taps = static_cast<int>(taps),
          .boundary = problem.boundary[axis]};
}

}  // namespace

FieldView field_axes(const FieldProblem& problem) {
  FieldView view{};
  view.u = axis_of(problem, 0), view.v = axis_of(problem, 1), view.w = axis_of(problem, 2);
  view.n = problem.n;
  view.c = static_cast<int>(problem.c), view.k = static_cast<int>(problem.k);
  view.x_n = step(problem.n, problem.x_stride[0]);
  view.y_n = step(problem.n, problem.y_stride[0]);
  view.x_c = step(problem.c, problem.x_stride[1]);
  view.y_k = step(problem.k, problem.y_stride[1]);
  view.w_c = step(problem.c, problem.w_stride[1]);
  view.w_k = step(problem.k, problem.w_stride[0]);
  return view;
}

FieldView field_view(const FieldProblem& problem) {
  FieldView view = field_axes(problem);
  if (view.u.taps <= 1) std::swap(view.u, view.v);
  // Lines are taken several at a time: rows where v has none, and images where there are no rows.
  if (view.u.taps == 1 && view.v.taps == 1 && view.v.outputs == 1) std::swap(view.u, view.v);
  // An axis whose one output lies in the padding is no such axis: what it reads is a zero.
  const bool reads_image = view.v.before == 0 || view.v.boundary != Boundary::zeros;
  if (view.v.taps == 1 && view.v.outputs == 1 && view.v.extent == 1 && reads_image) {
    view.v = {view.n, view.n, 0, view.x_n, view.y_n, 0, 1, Boundary::zeros};
    view.n = 1, view.x_n = 0, view.y_n = 0;
  }
  return view;
}

}  // namespace plumb::cuda
