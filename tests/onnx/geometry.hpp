// How ONNX describes images and the windows that move over them, as Plumb has it: a 1-D image is
// one of height 1.
#pragma once

#include "onnx/model.hpp"
#include "plumb/types.hpp"

namespace plumb_test::onnx {

/// N C H W of an array of three or four dimensions (or K C/G R S, for filters). Unsupported for
/// 3-D images.
plumb::Extents image_extents(const Array& array);
/// The other way: the dimensions of a result, without the height if `like` has none.
std::vector<std::int64_t> dims_like(const Array& like, const plumb::Extents& extents);

struct Movement {
  plumb::Pair window, stride, dilation;
  plumb::Padding padding;
};

/// The attributes kernel_shape (or `window` where it is left out), strides, dilations, pads and
/// auto_pad over the image `x`. ParseError where they do not fit its rank.
Movement movement_of(const Node& node, const Array& x, plumb::Pair window);

}  // namespace plumb_test::onnx
