// A convolution as a problem of fields.
#include "cuda_kernels/fields/fields.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

FieldProblem field_problem(const ConvProblem& p) {
  FieldProblem field{.n = p.n,
                     .c = p.c,
                     .k = p.k,
                     .extent = {p.d, p.h, p.w},
                     .filter = {p.t, p.r, p.s},
                     .before = {p.padding.front, p.padding.top, p.padding.left},
                     .boundary = {p.boundary.d, p.boundary.h, p.boundary.w}};
  // What no window reaches is no padding.
  const std::int64_t outputs[] = {p.z(), p.p(), p.q()};
  for (int i = 0; i < 3; ++i)
    field.after[i] = outputs[i] + field.filter[i] - 1 - field.extent[i] - field.before[i];
  const auto strides = [&](const Strides& from, std::array<std::int64_t, 5>& to) {
    const bool deep = from.rank() == 5;
    to = {from[0], from[1], deep ? from[2] : 0, from[deep ? 3 : 2], from[deep ? 4 : 3]};
  };
  strides(p.x_strides, field.x_stride);
  strides(p.w_strides, field.w_stride);
  strides(p.y_strides, field.y_stride);
  return field;
}

}  // namespace plumb::cuda
