// ONNX's pooling, ReLU and softmax. A maximum is exact; what else is computed has its error bound
// beside it, twice: once for each of the two results that are compared.
#include <algorithm>
#include <cmath>

#include "onnx/geometry.hpp"
#include "onnx/operators.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::onnx {
namespace {

using namespace plumb;

/// Runs `operate(queue, x, y)` on the device, and returns y.
template <class F>
std::vector<double> results(const Context& context, const Array& array, const Extents& x_extents,
                            const Extents& y_extents, const F& operate) {
  const DType dtype = stored_type(array);
  HostTensor x = HostTensor::of(dtype, x_extents, array.values), y(dtype, y_extents);
  Queue queue(context.device);
  const DeviceTensor device_x(queue, x), device_y(queue, y);
  operate(queue, ConstTensorView(device_x), TensorView(device_y));
  device_y.read_back(queue, y);
  if (!y.surroundings_untouched()) throw std::runtime_error("memory around y was written");
  return y.values();
}

Value pooled(const Context& context, const Array& x, const PoolGeometry& geometry) {
  const Extents extents = image_extents(x);
  const Extents y_extents = pooled_extents(extents, geometry);
  Value y;
  y.array.dims = {y_extents.begin(), y_extents.end()};
  y.array.values = results(context, x, extents, y_extents,
                           [&](Queue& queue, const ConstTensorView& from, const TensorView& to) {
                             pool(queue, from, to, geometry);
                           });
  if (geometry.kind == PoolKind::max) return y;

  // The mean of n values of magnitude m at most: n - 1 sums, a quotient, and a rounding more where
  // it is a product with 1 / n, each off by a unit roundoff of m at most.
  const double u = unit_roundoff(stored_type(x));
  double largest = 0;
  for (const double value : x.values) largest = std::max(largest, std::abs(value));
  const Triple& window = geometry.window;
  const double roundings = static_cast<double>(window.d * window.h * window.w + 1) * u;
  y.tolerance.assign(y.array.values.size(), 2 * roundings / (1 - roundings) * largest);
  return y;
}

PoolGeometry geometry_of(const Node& node, const Array& x, PoolKind kind) {
  const Movement movement = movement_of(node, x, 0);
  return {.kind = kind,
          .window = movement.window,
          .stride = movement.stride,
          .dilation = movement.dilation,
          .padding = movement.padding,
          .ceil_mode = node.integer("ceil_mode", 0) != 0,
          .count_padding = node.integer("count_include_pad", 0) != 0};
}

Value pooled_whole(const Context& context, const Array& x, PoolKind kind) {
  return pooled(context, x, {.kind = kind, .window = axes_of(image_extents(x))});
}

/// An array as softmax sees it: it runs along the middle one of three dimensions.
struct Rows {
  std::int64_t before = 1, along = 1, behind = 1;
};

Rows rows_of(const Array& x, std::int64_t axis, bool flatten) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) throw ParseError("axis beyond the rank");
  Rows rows;
  for (std::int64_t i = 0; i < rank; ++i)
    (i < axis               ? rows.before
     : i == axis || flatten ? rows.along
                            : rows.behind) *= x.dims[static_cast<std::size_t>(i)];
  return rows;
}

/// [N,C] of the `i`th block of rows.
template <class View>
View block(const View& whole, const Rows& rows, std::int64_t i) {
  const std::int64_t offset = i * rows.along * rows.behind;
  auto* begin =
      static_cast<
          std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>*>(
          whole.data()) +
      offset * static_cast<std::int64_t>(size_in_bytes(whole.dtype()));
  return View(begin, whole.dtype(), {rows.behind, rows.along}, whole.device(), {1, rows.behind});
}

/// What two results may differ by: the difference to the maximum is rounded, exp is good to some
/// units in the last place, and the sum of C terms adds C roundings.
std::vector<double> softmax_tolerances(const Array& x, const Rows& rows) {
  const double u = unit_roundoff(stored_type(x));
  std::vector<double> result(x.values.size());
  for (std::int64_t row = 0; row < rows.before * rows.behind; ++row) {
    const std::int64_t begin = row / rows.behind * rows.along * rows.behind + row % rows.behind;
    const auto at = [&](std::int64_t i) {
      return static_cast<std::size_t>(begin + i * rows.behind);
    };
    double most = x.values[at(0)], sum = 0;
    for (std::int64_t i = 0; i < rows.along; ++i) most = std::max(most, x.values[at(i)]);
    for (std::int64_t i = 0; i < rows.along; ++i) sum += std::exp(x.values[at(i)] - most);
    for (std::int64_t i = 0; i < rows.along; ++i) {
      const double distance = most - x.values[at(i)];
      const double relative = u * (2 * distance + 16 + static_cast<double>(rows.along));
      result[at(i)] = 2 * (relative * std::exp(-distance) / sum + 0x1p-149);
    }
  }
  return result;
}

}  // namespace

Value max_pool(const Context& context, const Node& node, const Inputs& inputs) {
  if (node.outputs.size() > 1) throw Unsupported("a second output, the indices of the maxima");
  const Array& x = operand(inputs, 0);
  return pooled(context, x, geometry_of(node, x, PoolKind::max));
}

Value average_pool(const Context& context, const Node& node, const Inputs& inputs) {
  const Array& x = operand(inputs, 0);
  return pooled(context, x, geometry_of(node, x, PoolKind::average));
}

Value global_max_pool(const Context& context, const Node&, const Inputs& inputs) {
  return pooled_whole(context, operand(inputs, 0), PoolKind::max);
}

Value global_average_pool(const Context& context, const Node&, const Inputs& inputs) {
  return pooled_whole(context, operand(inputs, 0), PoolKind::average);
}

Value relu(const Context& context, const Node&, const Inputs& inputs) {
  const Array& x = operand(inputs, 0);
  const Extents extents(x.dims.data(), x.dims.size());
  Value y;
  y.array.dims = x.dims;
  y.array.values = results(context, x, extents, extents,
                           [](Queue& queue, const ConstTensorView& from, const TensorView& to) {
                             plumb::relu(queue, from, to);
                           });
  return y;
}

Value softmax(const Context& context, const Node& node, const Inputs& inputs) {
  const Array& x = operand(inputs, 0);
  // Before version 13 the dimensions from the axis on were taken as one.
  const bool flatten = context.opset < 13;
  const Rows rows = rows_of(x, node.integer("axis", flatten ? 1 : -1), flatten);
  const Extents extents(x.dims.data(), x.dims.size());
  Value y;
  y.array.dims = x.dims;
  y.array.values = results(context, x, extents, extents,
                           [&](Queue& queue, const ConstTensorView& from, const TensorView& to) {
                             for (std::int64_t i = 0; i < rows.before; ++i)
                               plumb::softmax(queue, block(from, rows, i), block(to, rows, i));
                           });
  y.tolerance = softmax_tolerances(x, rows);
  return y;
}

}  // namespace plumb_test::onnx
