// ONNX's convolution and the operators that are linear layers. Their results and Plumb's each lie
// within a bound of the exact one, so the two may differ by the sum of the bounds.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "onnx/geometry.hpp"
#include "onnx/operators.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::onnx {
namespace {

using namespace plumb;

/// x and w of rank 3 to 5 for a convolution, of rank 2 for a linear layer.
struct Operands {
  HostTensor x, w;
  std::optional<HostTensor> bias;
};

/// A linear layer is the 1x1 convolution of 1x1 images.
ConstTensorView as_image(const ConstTensorView& view) {
  if (view.rank() > 2) return view;
  return {view.data(),
          view.dtype(),
          {view.extent(0), view.extent(1), 1, 1},
          view.device(),
          {view.stride(0), view.stride(1), 1, 1}};
}

ConvProblem problem_for(const Operands& operands, const ConvGeometry& geometry) {
  const ConstTensorView x = as_image(operands.x.view()), w = as_image(operands.w.view());
  const Triple image = axes_of(x.extents()), filter = axes_of(w.extents());
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = geometry;
  problem.dtype = x.dtype();
  problem.n = x.extent(0), problem.c = x.extent(1);
  problem.d = image.d, problem.h = image.h, problem.w = image.w;
  problem.k = w.extent(0);
  problem.t = filter.d, problem.r = filter.h, problem.s = filter.w;
  problem.x_strides = x.strides(), problem.w_strides = w.strides();
  return check(problem);
}

/// The definition's results. The problem has its tensors in its own rank.
std::vector<OracleTerm> oracle_of(const ConvProblem& problem, const Operands& operands) {
  const ConstTensorView x = operands.x.view(), w = operands.w.view();
  return conv_oracle(problem, {x.data(), x.dtype(), problem.x_extents(), host, problem.x_strides},
                     {w.data(), w.dtype(), problem.w_extents(), host, problem.w_strides},
                     operands.bias ? ConstTensorView(operands.bias->view()) : ConstTensorView());
}

/// The options that let the context's algorithm run, whatever it rounds.
ConvOptions options_for(const Context& context, DType dtype, bool bias) {
  ConvOptions options{.algorithm = context.algorithm, .bias = bias};
  for (const ConvAlgorithm* algorithm : conv_algorithms(context.device))
    if (algorithm->name == context.algorithm) options.math = math_class(algorithm->numerics, dtype);
  return options;
}

std::vector<double> tolerances(const Numerics& ours, const ConvProblem& problem,
                               const std::vector<OracleTerm>& oracle,
                               const std::vector<double>& computed) {
  Numerics theirs;
  if (unit_roundoff(problem.dtype) == 0x1p-53)
    theirs = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma};
  std::vector<double> result;
  for (std::size_t i = 0; i < oracle.size(); ++i)
    result.push_back(conv_error_bound(ours, problem, oracle[i], computed[i]) +
                     conv_error_bound(theirs, problem, oracle[i], computed[i]));
  return result;
}

/// Calls `run(queue, tensors, options)` on the device; y has the given extents.
template <class F>
Value convolved(const Context& context, Operands& operands, const ConvGeometry& geometry,
                const Extents& y_extents, const F& run) {
  const ConvProblem problem = problem_for(operands, geometry);
  const ConvOptions options = options_for(context, problem.dtype, operands.bias.has_value());
  const Numerics numerics = ConvPlan(context.device, problem, options).algorithm().numerics;

  Queue queue(context.device);
  const DeviceTensor x(queue, operands.x), w(queue, operands.w);
  std::optional<DeviceTensor> bias;
  if (operands.bias) bias.emplace(queue, *operands.bias);
  HostTensor y(problem.dtype, y_extents);
  const DeviceTensor device_y(queue, y);
  run(queue,
      ConvTensors{
          .x = x, .w = w, .bias = bias ? ConstTensorView(*bias) : ConstTensorView(), .y = device_y},
      options);
  device_y.read_back(queue, y);
  if (!y.surroundings_untouched()) throw std::runtime_error("memory around y was written");

  Value result;
  result.array.values = y.values();
  result.tolerance =
      tolerances(numerics, problem, oracle_of(problem, operands), result.array.values);
  return result;
}

/// The array, or its transpose, which lies in memory as the array does.
HostTensor matrix(const Array& array, bool transposed) {
  const DType dtype = stored_type(array);
  const std::int64_t rows = array.dims[0], columns = array.dims[1];
  if (!transposed) return HostTensor::of(dtype, {rows, columns}, array.values);
  HostTensor result(dtype, {columns, rows}, {1, columns});
  for_each_index(result.extents(), [&](const Dims& i) {
    result.set(i, array.values[static_cast<std::size_t>(i[1] * columns + i[0])]);
  });
  return result;
}

/// Gemm's C as the bias of K output channels.
HostTensor bias_of(const Array& c, std::int64_t k) {
  const auto count = static_cast<std::int64_t>(c.values.size());
  if (count == 1)
    return HostTensor::of(stored_type(c), {k},
                          std::vector(static_cast<std::size_t>(k), c.values.front()));
  if (count != k || c.dims.back() != k)
    throw Unsupported("a matrix is added (C), where a linear layer has a bias");
  return HostTensor::of(stored_type(c), {k}, c.values);
}

/// y's extents in the rank of x.
Extents y_extents_for(const Operands& operands, const ConvGeometry& geometry) {
  const ConvProblem problem = problem_for(operands, geometry);
  const std::int64_t axes[] = {problem.z(), problem.p(), problem.q()};
  Extents extents = operands.x.extents();
  extents[1] = problem.k;
  for (int i = 2; i < extents.rank(); ++i) extents[i] = axes[i + 3 - extents.rank()];
  return extents;
}

void require_matrices(const Array& a, const Array& b) {
  if (a.dims.size() != 2 || b.dims.size() != 2)
    throw Unsupported(
        fmt::format("a product of ranks {} and {}, where a linear layer has two matrices",
                    a.dims.size(), b.dims.size()));
}

Value linear_layer(const Context& context, Operands operands) {
  const Extents extents{operands.x.extents()[0], operands.w.extents()[0]};
  Value y = convolved(context, operands, {}, extents,
                      [](Queue& queue, const ConvTensors& tensors, const ConvOptions& options) {
                        linear(queue, tensors, options);
                      });
  y.array.dims = {extents[0], extents[1]};
  return y;
}

}  // namespace

Value conv(const Context& context, const Node& node, const Inputs& inputs) {
  const Array &x = operand(inputs, 0), &w = operand(inputs, 1);
  const Extents filter = image_extents(w);
  const Movement movement = movement_of(node, x, axes_of(filter));
  if (movement.window != axes_of(filter)) throw ParseError("kernel_shape is not the filter's");
  const ConvGeometry geometry{.stride = movement.stride,
                              .dilation = movement.dilation,
                              .padding = movement.padding,
                              .groups = node.integer("group", 1)};
  Operands operands{HostTensor::of(stored_type(x), image_extents(x), x.values),
                    HostTensor::of(stored_type(w), filter, w.values), std::nullopt};
  if (inputs.size() > 2 && inputs[2]) {
    const Array& bias = operand(inputs, 2);
    operands.bias = HostTensor::of(stored_type(bias), {filter[0]}, bias.values);
  }
  const Extents extents = y_extents_for(operands, geometry);
  Value y = convolved(context, operands, geometry, extents,
                      [&](Queue& queue, const ConvTensors& tensors, const ConvOptions& options) {
                        plumb::conv(queue, tensors, geometry, options);
                      });
  y.array.dims = {extents.begin(), extents.end()};
  return y;
}

Value gemm(const Context& context, const Node& node, const Inputs& inputs) {
  const Array &a = operand(inputs, 0), &b = operand(inputs, 1);
  require_matrices(a, b);
  const bool has_bias = inputs.size() > 2 && inputs[2] && node.real("beta", 1) != 0;
  for (const char* scale : {"alpha", "beta"})
    if (node.real(scale, 1) != 1 && (has_bias || scale != std::string_view("beta")))
      throw Unsupported(fmt::format("{} is not 1; a linear layer has no such factor", scale));
  Operands operands{matrix(a, node.integer("transA", 0) != 0),
                    matrix(b, node.integer("transB", 0) == 0), std::nullopt};
  if (has_bias) operands.bias = bias_of(operand(inputs, 2), operands.w.extents()[0]);
  return linear_layer(context, std::move(operands));
}

Value matmul(const Context& context, const Node&, const Inputs& inputs) {
  const Array &a = operand(inputs, 0), &b = operand(inputs, 1);
  require_matrices(a, b);
  return linear_layer(context, {matrix(a, false), matrix(b, true), std::nullopt});
}

}  // namespace plumb_test::onnx
