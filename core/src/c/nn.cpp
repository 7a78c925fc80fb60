// The operators around convolution from C.
#include "plumb/nn.hpp"

#include <algorithm>

#include "convert.hpp"
#include "handles.hpp"

using plumb::c::at;
using plumb::c::pool_geometry_of;
using plumb::c::run;
using plumb::c::view_of;

plumb_status plumb_pooled_extents(const std::int64_t x_extents[4],
                                  const plumb_pool_geometry* geometry, std::int64_t y_extents[4]) {
  return run(__func__, [&] {
    at(y_extents, "y_extents");
    const plumb::Extents y = plumb::pooled_extents(plumb::Extents(&at(x_extents, "x_extents"), 4),
                                                   pool_geometry_of(geometry));
    std::copy(y.begin(), y.end(), y_extents);
  });
}

plumb_status plumb_pool(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* y,
                        const plumb_pool_geometry* geometry) {
  return run(__func__, [&] {
    plumb::pool(at(queue, "queue").queue, view_of(x, "x"), view_of(y, "y"),
                pool_geometry_of(geometry));
  });
}

plumb_status plumb_linear(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* w,
                          const plumb_tensor* bias, const plumb_tensor* y,
                          const plumb_conv_options* options) {
  return run(__func__, [&] {
    plumb::linear(at(queue, "queue").queue, plumb::c::tensors_of(x, w, bias, y),
                  plumb::c::options_of(options));
  });
}

plumb_status plumb_relu(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* y) {
  return run(__func__,
             [&] { plumb::relu(at(queue, "queue").queue, view_of(x, "x"), view_of(y, "y")); });
}

plumb_status plumb_softmax(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* y) {
  return run(__func__,
             [&] { plumb::softmax(at(queue, "queue").queue, view_of(x, "x"), view_of(y, "y")); });
}

plumb_status plumb_resize_bilinear(plumb_queue* queue, const plumb_tensor* x,
                                   const plumb_tensor* y) {
  return run(__func__, [&] {
    plumb::resize_bilinear(at(queue, "queue").queue, view_of(x, "x"), view_of(y, "y"));
  });
}
