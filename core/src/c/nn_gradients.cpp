// The gradients of the operators around convolution from C: what plumb_nn.h has.
#include "convert.hpp"
#include "handles.hpp"
#include "plumb/nn.hpp"

using namespace plumb;
using plumb::c::at;
using plumb::c::run;
using plumb::c::view_if;
using plumb::c::view_of;

plumb_status plumb_relu_backward(plumb_queue* queue, const plumb_tensor* y, const plumb_tensor* dy,
                                 const plumb_tensor* dx) {
  return run(__func__, [&] {
    relu_backward(at(queue, "queue").queue, view_of(y, "y"), view_of(dy, "dy"), view_of(dx, "dx"));
  });
}

plumb_status plumb_pool_backward(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* dy,
                                 const plumb_tensor* dx, const plumb_pool_geometry* geometry) {
  return run(__func__, [&] {
    const PoolGeometry pooling = c::pool_geometry_of(geometry);
    if (!x && pooling.kind == PoolKind::max)
      c::refuse("x is NULL; a maximum's gradient looks at it");
    pool_backward(at(queue, "queue").queue, view_if(x, "x"), view_of(dy, "dy"), view_of(dx, "dx"),
                  pooling);
  });
}

plumb_status plumb_linear_gradients_init(plumb_linear_gradients* tensors) {
  return run(__func__, [&] {
    at(tensors, "tensors") = {.struct_size = sizeof(plumb_linear_gradients),
                              .x = nullptr,
                              .w = nullptr,
                              .dy = nullptr,
                              .dx = nullptr,
                              .dw = nullptr,
                              .db = nullptr,
                              .mask = nullptr};
  });
}

plumb_status plumb_linear_backward(plumb_queue* queue, const plumb_linear_gradients* tensors,
                                   const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    linear_backward(at(queue, "queue").queue, c::linear_gradients_of(tensors),
                    c::options_of(options));
  });
}

plumb_status plumb_resize_bilinear_backward(plumb_queue* queue, const plumb_tensor* dy,
                                            const plumb_tensor* dx) {
  return run(__func__, [&] {
    resize_bilinear_backward(at(queue, "queue").queue, view_of(dy, "dy"), view_of(dx, "dx"));
  });
}

plumb_status plumb_softmax_cross_entropy(plumb_queue* queue, const plumb_tensor* logits,
                                         const plumb_labels* labels, const plumb_tensor* loss,
                                         const plumb_tensor* dlogits, double scale) {
  return run(__func__, [&] {
    const plumb_labels& of = at(labels, "labels");
    softmax_cross_entropy(at(queue, "queue").queue,
                          {.logits = view_of(logits, "logits"),
                           .labels = {.data = of.data,
                                      .count = of.count,
                                      .device = of.device ? of.device->device.id() : host,
                                      .stride = of.stride},
                           .loss = view_if(loss, "loss"),
                           .dlogits = view_if(dlogits, "dlogits")},
                          scale);
  });
}

plumb_status plumb_sgd_options_init(plumb_sgd_options* options) {
  return run(__func__, [&] {
    at(options, "options") = {.struct_size = sizeof(plumb_sgd_options),
                              .learning_rate = SgdOptions{}.learning_rate,
                              .momentum = 0,
                              .weight_decay = 0,
                              .nesterov = 0,
                              .reserved = 0};
  });
}

plumb_status plumb_sgd_step(plumb_queue* queue, const plumb_tensor* w, const plumb_tensor* dw,
                            const plumb_tensor* velocity, const plumb_sgd_options* options) {
  return run(__func__, [&] {
    sgd_step(
        at(queue, "queue").queue,
        {.w = view_of(w, "w"), .dw = view_of(dw, "dw"), .velocity = view_if(velocity, "velocity")},
        c::sgd_options_of(options));
  });
}
