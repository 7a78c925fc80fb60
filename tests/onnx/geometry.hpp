// How ONNX describes images of one to three axes and the windows that move over them, as Plumb has
// it.
#pragma once

#include "onnx/model.hpp"
#include "plumb/types.hpp"

namespace plumb_test::onnx {

/// N C W, N C H W or N C D H W of an array (or K C/G (T) (R) S, for filters). ParseError for other
/// ranks.
plumb::Extents image_extents(const Array& array);
/// The axes of such extents: 1 along those that the image lacks.
plumb::Triple axes_of(const plumb::Extents& extents);

struct Movement {
  plumb::Triple window, stride, dilation;
  plumb::Padding padding;
};

/// The attributes kernel_shape (or `window` where it is left out), strides, dilations, pads and
/// auto_pad over the image `x`. ParseError where they do not fit its rank.
Movement movement_of(const Node& node, const Array& x, plumb::Triple window);

}  // namespace plumb_test::onnx
