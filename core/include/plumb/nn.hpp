// The operators that a small network needs around convolution, their gradients, and the step that
// changes weights by them, are put on a queue of any device. Views may have any strides; all are on
// the queue's device and of one dtype, and what is written overlaps neither itself nor what is
// read. What does not fit, and what would not fit into 64 bits, is an Error (invalid_argument). f64
// is computed in double, the other types in float. NaN stays NaN. The same bits come out every
// time, whatever the number of threads: every element is summed by one of them, in a fixed order.
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

/// Computes dx, the gradient by x of a sum of y dy for y = relu(x): dx = dy where y is above 0, and
/// 0 elsewhere. A NaN in y is not above 0, as in JAX and as in a convolution's mask; PyTorch passes
/// dy on there. All have the same extents; dx may be the same memory as dy, as for relu(). As y
/// serves x too.
PLUMB_API void relu_backward(Queue& queue, const ConstTensorView& y, const ConstTensorView& dy,
                             const TensorView& dx);

/// Computes dx, of x's extents, for y = pool(x), of pooled_extents(), whose gradient is dy. The
/// maximum passes dy to one element of its window, as PyTorch does: to the first, in the order of
/// D, H and W, of those that are the maximum; where there are NaN, to the last of these. The
/// average gives each element of the window its share. Where windows overlap, the sum is in their
/// order. The average does not look at x, which may then be empty.
PLUMB_API void pool_backward(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                             const TensorView& dx, const PoolGeometry& geometry);

/// The tensors of linear_backward(), where y = x w^T + bias.
struct LinearBackwardTensors {
  ConstTensorView x = {};     ///< [N,C]; for dw
  ConstTensorView w = {};     ///< [K,C]; for dx
  ConstTensorView dy = {};    ///< [N,K]
  TensorView dx = {};         ///< [N,C], dy w; empty: not computed
  TensorView dw = {};         ///< [K,C], dy^T x; empty: not computed
  TensorView db = {};         ///< [K] dense, the sum of dy over N, with dw alone; empty: none
  ConstTensorView mask = {};  ///< [N,K], a ReLU's output behind the layer, as for convolutions
};
/// Computes those of dx, dw and db that are there. They are the gradients of the 1x1 convolution of
/// 1x1 images, with its options (accumulate adds to what they hold) and errors.
PLUMB_API void linear_backward(Queue& queue, const LinearBackwardTensors& tensors,
                               const ConvOptions& options = {});

/// Computes dx [N,C,H,W] for y = resize_bilinear(x), of [N,C,P,Q], whose gradient is dy: each
/// element of dy goes to the four of dx that y was sampled from, with the weights of the sample.
PLUMB_API void resize_bilinear_backward(Queue& queue, const ConstTensorView& dy,
                                        const TensorView& dx);

/// The class of each image of a batch: integers from 0 in the device's memory, as PyTorch has them.
struct LabelView {
  const std::int64_t* data = nullptr;  ///< of the first image
  std::int64_t count = 0;              ///< N
  DeviceId device = host;              ///< that can read them
  std::int64_t stride = 1;             ///< in elements, from an image to the next
};
/// The tensors of softmax_cross_entropy().
struct CrossEntropyTensors {
  ConstTensorView logits = {};  ///< [N,C], C at least 1
  LabelView labels = {};        ///< N of them
  TensorView loss = {};         ///< [1], of any dtype; empty: not computed
  TensorView dlogits = {};  ///< [N,C], may be the same memory as the logits; empty: not computed
};
/// Computes, as PyTorch's cross_entropy with the mean over the batch and its gradient by the logits
/// do in two steps, loss = mean over n of -log softmax(logits)[n, labels[n]] (NaN where N is 0) and
/// dlogits[n,c] = (softmax(logits)[n,c] - (1 where c is labels[n])) scale / N. A label that is no
/// class makes the loss and its row of dlogits NaN. The mean is formed in double.
PLUMB_API void softmax_cross_entropy(Queue& queue, const CrossEntropyTensors& tensors,
                                     double scale = 1);

/// How sgd_step() goes, as torch.optim.SGD does with these names.
struct SgdOptions {
  double learning_rate = 1e-3;  ///< at least 0
  double momentum = 0;          ///< at least 0; how much of the last step's direction is kept
  double weight_decay = 0;      ///< at least 0; times w, added to the gradient
  bool nesterov = false;        ///< looks ahead along the new direction; takes a momentum
};
/// The tensors of sgd_step(), of the same extents.
struct SgdTensors {
  TensorView w = {};        ///< the weights, which are changed
  ConstTensorView dw = {};  ///< their gradient
  TensorView velocity =
      {};  ///< kept from step to step, zeros before the first; with momentum alone
};
/// Takes a step of stochastic gradient descent: with g = dw + weight_decay w, velocity becomes
/// momentum velocity + g, and w becomes w - learning_rate v, where v is velocity, with nesterov g +
/// momentum velocity, and without momentum g. Every operation rounds by itself, in double for f64
/// and in float for other types, so that the devices take the same steps.
PLUMB_API void sgd_step(Queue& queue, const SgdTensors& tensors, const SgdOptions& options);

}  // namespace plumb
