// The operators that a small network needs around convolution are put on a queue of any device.
// Views may have any strides; all are on the queue's device and of one dtype, and y overlaps
// neither itself nor an input. What does not fit, and what would not fit into 64 bits, is an Error
// (invalid_argument). f64 is computed in double, the other types in float. NaN stays NaN.
#pragma once

#include "plumb/conv.hpp"
#include "plumb/export.h"
#include "plumb/tensor.hpp"
#include "plumb/types.hpp"

namespace plumb {

/// What is taken over a window.
enum class PoolKind : std::uint8_t { max, average };

/// How the window moves over the image. Images without a depth, or without a height, have no use
/// for the values along it.
struct PoolGeometry {
  PoolKind kind = PoolKind::max;  ///< what is taken
  Triple window = {};             ///< at least 1
  Triple stride = {};             ///< at least 1
  Triple dilation = {};           ///< at least 1
  Padding padding = {};           ///< less than the (dilated) window on each side
  /// Whether a last window that starts inside the image, or the padding before it, may hang over.
  bool ceil_mode = false;
  bool count_padding = false;  ///< average: padding counts in the divisor, what hangs over does not
};

/// Returns [N,C,Q] for x of [N,C,W], [N,C,P,Q] for [N,C,H,W], and [N,C,Z,P,Q] for [N,C,D,H,W].
/// Throws Error (invalid_argument) that names the value that does not fit.
PLUMB_API Extents pooled_extents(const Extents& x, const PoolGeometry& geometry);

/// Computes y[n,c,z,p,q] = maximum (padding never wins) or average over the window, of x [N,C,W],
/// [N,C,H,W] or [N,C,D,H,W], for y as pooled_extents() says, as ONNX's MaxPool and AveragePool do.
PLUMB_API void pool(Queue& queue, const ConstTensorView& x, const TensorView& y,
                    const PoolGeometry& geometry);

/// Computes y[n,k] = activation(bias[k] + sum over c of x[n,c] w[k,c]), with x [N,C], w [K,C], bias
/// [K] or empty, y [N,K]. It is the 1x1 convolution of 1x1 images, with its options and errors.
PLUMB_API void linear(Queue& queue, const ConvTensors& tensors, ConvOptions options = {});

/// Computes y = max(x, 0), element by element; x and y have the same extents. They may be the same
/// memory: one address and the same strides. Any other overlap is an Error (invalid_argument).
PLUMB_API void relu(Queue& queue, const ConstTensorView& x, const TensorView& y);

/// Computes y[n,:] = exp(x[n,:] - max x[n,:]) / their sum, as ONNX's Softmax does, with x and y
/// [N,C]. They may be the same memory, as for relu().
PLUMB_API void softmax(Queue& queue, const ConstTensorView& x, const TensorView& y);

/// Interpolates bilinearly with half-pixel centres, edges clamped: y [N,C,P,Q] samples x [N,C,H,W]
/// at ((p + 1/2) H/P - 1/2, (q + 1/2) W/Q - 1/2), as ONNX's Resize, linear and half_pixel, does.
PLUMB_API void resize_bilinear(Queue& queue, const ConstTensorView& x, const TensorView& y);

}  // namespace plumb
