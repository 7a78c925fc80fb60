// Gradients of the network's layers. On the CPU, in f32 or f64; gradients of a loss L are written
// d..., of the extents of what they belong to. Each call has finished when it returns, and gives
// the same bits every time for the same number of threads.
//
// At stride 1 the three convolutions of a layer are one and the same operation on other views of
// the same memory, so no second convolution is written here: backward-data and backward-weights
// are plumb::conv with flipped and permuted strides (Dumoulin & Visin 2016, "A guide to
// convolution arithmetic for deep learning", sections 4.2 and 4.3, for the first).
#pragma once

#include <cstdint>
#include <span>

#include "plumb/plumb.hpp"

namespace plumb::app {

/// dx [N,C,H,W] of y = conv(x, w), stride 1, no padding: dy [N,K,P,Q], padded by R-1 and S-1 on
/// all sides, convolved with w [K,C,R,S] turned by 180 degrees and K and C swapped.
void conv_backward_data(Queue& queue, const ConstTensorView& dy, const ConstTensorView& w,
                        const TensorView& dx);

/// dw [K,C,R,S] of the same: x [N,C,H,W] as N channels of C images, convolved with dy [N,K,P,Q]
/// as K filters of N channels.
void conv_backward_weights(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                           const TensorView& dw);

/// dx [N,C] = dy [N,K] w [K,C], and dw [K,C] = dy^T x, of y = linear(x, w).
void linear_backward_data(Queue& queue, const ConstTensorView& dy, const ConstTensorView& w,
                          const TensorView& dx);
void linear_backward_weights(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                             const TensorView& dw);

/// db [K]: dy [N,K,...], dense, summed over everything but K.
void bias_backward(const ConstTensorView& dy, const TensorView& db);

/// Sets dy to zero wherever y = relu(.) is not positive, as where it is NaN; dense, of the same
/// extents.
void relu_backward(const ConstTensorView& y, const TensorView& dy);

/// dx [N,C,H,W] of y = the maximum over windows x windows that do not overlap (stride = window, no
/// padding), from x and dy [N,C,P,Q], dense: each dy goes to the first element of its window that
/// is the maximum.
void max_pool_backward(const ConstTensorView& x, const ConstTensorView& dy, std::int64_t window,
                       const TensorView& dx);

/// The mean over N of -log softmax(logits)[n, labels[n]], from logits [N,K], dense.
double cross_entropy(const ConstTensorView& logits, std::span<const std::uint8_t> labels);

/// Its gradient by the logits, from probabilities = softmax(logits): (probabilities - one) / N,
/// one being 1 at the label.
void cross_entropy_backward(const ConstTensorView& probabilities,
                            std::span<const std::uint8_t> labels, const TensorView& dlogits);

}  // namespace plumb::app
