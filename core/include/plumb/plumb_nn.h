/// @file
// The gradients of the operators around convolution, and the step that changes weights by them,
// from C. plumb.h includes this header; what it says holds here too.
//
// The operators themselves are in plumb.h. All tensors of a call are on the queue's device and of
// one dtype; views may have any strides. What is written overlaps neither itself nor what is read,
// but where a function says so. The same bits come out every time. NaN stays NaN.
#pragma once

#include "plumb/plumb.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Computes dx for y = relu(x): dx = dy where y is above 0, and 0 elsewhere; a NaN in y is not
/// above 0. As y serves x too. All have the same extents; dx and dy may be the same memory, at one
/// address and with the same strides.
PLUMB_API plumb_status plumb_relu_backward(plumb_queue* queue, const plumb_tensor* y,
                                           const plumb_tensor* dy, const plumb_tensor* dx);

/// Computes dx, of x's extents [N,C,H,W], for y = pool(x), of plumb_pooled_extents(), whose
/// gradient is dy. The maximum passes dy to the first element of its window that is the maximum;
/// where there are NaN, to the last of these. The average gives each element its share, and does
/// not look at x, which may then be NULL.
PLUMB_API plumb_status plumb_pool_backward(plumb_queue* queue, const plumb_tensor* x,
                                           const plumb_tensor* dy, const plumb_tensor* dx,
                                           const plumb_pool_geometry* geometry);

/// The tensors of plumb_linear_backward(), where y = x w^T + bias. Those that are NULL are not read
/// or not computed. plumb_linear_gradients_init() makes all of them NULL.
typedef struct plumb_linear_gradients {
  size_t struct_size;        ///< sizeof(plumb_linear_gradients)
  const plumb_tensor* x;     ///< [N,C]; for dw
  const plumb_tensor* w;     ///< [K,C]; for dx
  const plumb_tensor* dy;    ///< [N,K]; not NULL
  const plumb_tensor* dx;    ///< [N,C], dy w
  const plumb_tensor* dw;    ///< [K,C], dy^T x
  const plumb_tensor* db;    ///< [K] dense, the sum of dy over N; with dw alone
  const plumb_tensor* mask;  ///< [N,K], a ReLU's output behind the layer: dy counts above 0
} plumb_linear_gradients;
/// Sets every tensor to NULL.
PLUMB_API plumb_status plumb_linear_gradients_init(plumb_linear_gradients* tensors);
/// Computes those of dx, dw and db that are there, with the options of a convolution: accumulate
/// adds to what they hold. `options` may be NULL.
PLUMB_API plumb_status plumb_linear_backward(plumb_queue* queue,
                                             const plumb_linear_gradients* tensors,
                                             const plumb_conv_options_nd* options);

/// Computes dx [N,C,H,W] for y = resize_bilinear(x), of [N,C,P,Q], whose gradient is dy.
PLUMB_API plumb_status plumb_resize_bilinear_backward(plumb_queue* queue, const plumb_tensor* dy,
                                                      const plumb_tensor* dx);

/// The class of each image of a batch.
typedef struct plumb_labels {
  const int64_t* data;         ///< of the first image, in memory of the device
  int64_t count;               ///< N
  int64_t stride;              ///< elements from an image to the next
  const plumb_device* device;  ///< whose memory it is; NULL: the host's
} plumb_labels;
/// Computes loss [1] = mean over n of -log softmax(logits)[n, labels[n]] (NaN where N is 0), of any
/// dtype, and dlogits[n,c] = (softmax(logits)[n,c] - (1 where c is labels[n])) scale / N, of logits
/// [N,C]. A label that is no class makes the loss and its row of dlogits NaN. loss and dlogits may
/// be NULL; dlogits may be the same memory as the logits, at one address and with the same strides.
PLUMB_API plumb_status plumb_softmax_cross_entropy(plumb_queue* queue, const plumb_tensor* logits,
                                                   const plumb_labels* labels,
                                                   const plumb_tensor* loss,
                                                   const plumb_tensor* dlogits, double scale);

/// How plumb_sgd_step() goes; plumb_sgd_options_init() sets a learning rate of 0.001 and nothing
/// else.
typedef struct plumb_sgd_options {
  size_t struct_size;    ///< sizeof(plumb_sgd_options)
  double learning_rate;  ///< at least 0
  double momentum;       ///< at least 0; how much of the last step's direction is kept
  double weight_decay;   ///< at least 0; times w, added to the gradient
  int32_t nesterov;      ///< not 0: looks ahead along the new direction; takes a momentum
  int32_t reserved;      ///< 0
} plumb_sgd_options;
/// Sets a learning rate of 0.001, and no momentum, weight decay or looking ahead.
PLUMB_API plumb_status plumb_sgd_options_init(plumb_sgd_options* options);
/// Takes a step of stochastic gradient descent: with g = dw + weight_decay w, velocity becomes
/// momentum velocity + g, and w becomes w - learning_rate v, where v is velocity, with nesterov g +
/// momentum velocity, and without momentum g. velocity is zeros before the first step; NULL without
/// momentum. `options` may be NULL.
PLUMB_API plumb_status plumb_sgd_step(plumb_queue* queue, const plumb_tensor* w,
                                      const plumb_tensor* dw, const plumb_tensor* velocity,
                                      const plumb_sgd_options* options);

#ifdef __cplusplus
}
#endif
