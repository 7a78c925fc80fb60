// ONNX's geometry.
#include "onnx/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/operators.hpp"

namespace plumb_test::onnx {
namespace {

using plumb::Extents;
using plumb::Padding;
using plumb::Triple;

/// Values along the last axes as those along all three, the others being `otherwise`.
Triple along_all_axes(std::vector<std::int64_t> values, std::int64_t otherwise) {
  values.insert(values.begin(), 3 - values.size(), otherwise);
  return {values[0], values[1], values[2]};
}

/// An attribute with a value for each axis of the image.
Triple triple_of(const Node& node, const char* name, std::size_t axes, Triple otherwise) {
  const std::vector<std::int64_t> values = node.integers(name, {});
  if (values.empty()) return otherwise;
  if (values.size() != axes)
    throw ParseError(fmt::format("{} has {} values, expected one for each of the image's {} axes",
                                 name, values.size(), axes));
  return along_all_axes(values, 1);
}

/// The paddings before all axes are followed by those behind them.
Padding padding_of(const Node& node, std::size_t axes) {
  const std::vector<std::int64_t> pads = node.integers("pads", {});
  if (pads.empty()) return {};
  if (pads.size() != 2 * axes)
    throw ParseError(fmt::format("pads has {} values, expected two for each of the image's {} axes",
                                 pads.size(), axes));
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  const Triple before = along_all_axes({pads.begin(), middle}, 0);
  const Triple after = along_all_axes({middle, pads.end()}, 0);
  return {before.d, before.h, before.w, after.d, after.h, after.w};
}

/// The padding of one axis that makes ceil(input / stride) outputs.
std::int64_t same_padding(std::int64_t input, std::int64_t window, std::int64_t stride,
                          std::int64_t dilation) {
  const std::int64_t outputs = (input + stride - 1) / stride;
  const std::int64_t reach = dilation * (window - 1) + 1;
  return std::max<std::int64_t>((outputs - 1) * stride + reach - input, 0);
}

/// The odd plane, row or column goes to the end (SAME_UPPER) or to the beginning (SAME_LOWER).
Padding same_paddings(const Triple& image, const Movement& m, bool lower) {
  Padding padding;
  const auto divide = [&](std::int64_t whole, std::int64_t& before, std::int64_t& after) {
    before = (whole + (lower ? 1 : 0)) / 2;
    after = whole - before;
  };
  divide(same_padding(image.d, m.window.d, m.stride.d, m.dilation.d), padding.front, padding.back);
  divide(same_padding(image.h, m.window.h, m.stride.h, m.dilation.h), padding.top, padding.bottom);
  divide(same_padding(image.w, m.window.w, m.stride.w, m.dilation.w), padding.left, padding.right);
  return padding;
}

}  // namespace

Extents image_extents(const Array& array) {
  if (array.dims.size() < 3 || array.dims.size() > 5)
    throw ParseError(fmt::format("an image of {} dimensions", array.dims.size()));
  return Extents(array.dims.data(), array.dims.size());
}

Triple axes_of(const Extents& extents) {
  return along_all_axes({extents.begin() + 2, extents.end()}, 1);
}

Movement movement_of(const Node& node, const Array& x, Triple window) {
  const Extents image = image_extents(x);
  const auto axes = static_cast<std::size_t>(image.rank() - 2);
  Movement m{.window = triple_of(node, "kernel_shape", axes, window),
             .stride = triple_of(node, "strides", axes, {}),
             .dilation = triple_of(node, "dilations", axes, {}),
             .padding = {}};
  if (std::min({m.window.d, m.window.h, m.window.w}) < 1) throw ParseError("no kernel_shape");
  if (std::min({m.stride.d, m.stride.h, m.stride.w}) < 1) throw ParseError("a stride below 1");
  const std::string rule = node.text("auto_pad", "NOTSET");
  if (rule == "NOTSET")
    m.padding = padding_of(node, axes);
  else if (rule == "SAME_UPPER" || rule == "SAME_LOWER")
    m.padding = same_paddings(axes_of(image), m, rule == "SAME_LOWER");
  else if (rule != "VALID")
    throw ParseError(fmt::format("auto_pad is '{}'", rule));
  return m;
}

}  // namespace plumb_test::onnx
