// ONNX's geometry.
#include "onnx/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/operators.hpp"

namespace plumb_test::onnx {
namespace {

using plumb::Extents;
using plumb::Padding;
using plumb::Pair;

/// An attribute with a value for each dimension of the image; a 1-D image gets `height` besides.
Pair pair_of(const Node& node, const char* name, bool one_dimensional, Pair otherwise) {
  std::vector<std::int64_t> values = node.integers(name, {});
  if (values.empty()) return otherwise;
  if (one_dimensional) values.insert(values.begin(), 1);
  if (values.size() != 2)
    throw ParseError(fmt::format("{} has {} values, expected one for each dimension of the image",
                                 name, values.size()));
  return {values[0], values[1]};
}

Padding padding_of(const Node& node, bool one_dimensional) {
  const std::vector<std::int64_t> pads = node.integers("pads", {});
  if (pads.empty()) return {};
  if (pads.size() != (one_dimensional ? 2 : 4))
    throw ParseError(fmt::format("pads has {} values, expected two for each dimension of the image",
                                 pads.size()));
  if (one_dimensional) return {0, pads[0], 0, pads[1]};
  return {pads[0], pads[1], pads[2], pads[3]};
}

/// The padding of one side that makes ceil(input / stride) outputs.
std::int64_t same_padding(std::int64_t input, std::int64_t window, std::int64_t stride,
                          std::int64_t dilation) {
  const std::int64_t outputs = (input + stride - 1) / stride;
  const std::int64_t reach = dilation * (window - 1) + 1;
  return std::max<std::int64_t>((outputs - 1) * stride + reach - input, 0);
}

}  // namespace

Extents image_extents(const Array& array) {
  const auto& d = array.dims;
  if (d.size() == 3) return {d[0], d[1], 1, d[2]};
  if (d.size() == 4) return {d[0], d[1], d[2], d[3]};
  if (d.size() == 5) throw Unsupported("3-D images");
  throw ParseError(fmt::format("an image of {} dimensions", d.size()));
}

std::vector<std::int64_t> dims_like(const Array& like, const Extents& extents) {
  if (like.dims.size() == 3) return {extents[0], extents[1], extents[3]};
  return {extents.begin(), extents.end()};
}

Movement movement_of(const Node& node, const Array& x, Pair window) {
  const Extents image = image_extents(x);
  const bool one_dimensional = x.dims.size() == 3;
  Movement m{.window = pair_of(node, "kernel_shape", one_dimensional, window),
             .stride = pair_of(node, "strides", one_dimensional, {}),
             .dilation = pair_of(node, "dilations", one_dimensional, {}),
             .padding = {}};
  if (m.window.h < 1 || m.window.w < 1) throw ParseError("no kernel_shape");
  if (m.stride.h < 1 || m.stride.w < 1) throw ParseError("a stride below 1");
  const std::string rule = node.text("auto_pad", "NOTSET");
  if (rule == "NOTSET") {
    m.padding = padding_of(node, one_dimensional);
  } else if (rule == "SAME_UPPER" || rule == "SAME_LOWER") {
    // An odd row or column goes to the end (upper) or to the beginning (lower).
    const std::int64_t odd = rule == "SAME_LOWER" ? 1 : 0;
    const std::int64_t rows = same_padding(image[2], m.window.h, m.stride.h, m.dilation.h);
    const std::int64_t columns = same_padding(image[3], m.window.w, m.stride.w, m.dilation.w);
    m.padding.top = (rows + odd) / 2, m.padding.bottom = rows - m.padding.top;
    m.padding.left = (columns + odd) / 2, m.padding.right = columns - m.padding.left;
  } else if (rule != "VALID") {
    throw ParseError(fmt::format("auto_pad is '{}'", rule));
  }
  return m;
}

}  // namespace plumb_test::onnx
