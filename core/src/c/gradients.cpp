// Gradients and transposed convolutions from C: what plumb_nd.h has of them.
#include "convert.hpp"
#include "handles.hpp"
#include "plumb/pipeline.hpp"

using namespace plumb;
using plumb::c::at;
using plumb::c::geometry_of;
using plumb::c::options_of;
using plumb::c::run;
using plumb::c::view_if;
using plumb::c::view_of;

namespace {

BackwardDataTensors data_tensors(const plumb_tensor* dy, const plumb_tensor* w,
                                 const plumb_tensor* dx, const plumb_tensor* mask,
                                 const plumb_tensor* bias) {
  return {.dy = view_of(dy, "dy"),
          .w = view_of(w, "w"),
          .dx = view_of(dx, "dx"),
          .mask = view_if(mask, "mask"),
          .bias = view_if(bias, "bias")};
}

BackwardWeightsTensors weights_tensors(const plumb_tensor* x, const plumb_tensor* dy,
                                       const plumb_tensor* dw, const plumb_tensor* db,
                                       const plumb_tensor* mask) {
  return {.x = view_of(x, "x"),
          .dy = view_of(dy, "dy"),
          .dw = view_of(dw, "dw"),
          .db = view_if(db, "db"),
          .mask = view_if(mask, "mask")};
}

TransposedTensors transposed_tensors(const plumb_tensor* x, const plumb_tensor* w,
                                     const plumb_tensor* bias, const plumb_tensor* y) {
  return {.x = view_of(x, "x"),
          .w = view_of(w, "w"),
          .bias = view_if(bias, "bias"),
          .y = view_of(y, "y")};
}

}  // namespace

plumb_status plumb_conv_backward_data(plumb_queue* queue, const plumb_tensor* dy,
                                      const plumb_tensor* w, const plumb_tensor* dx,
                                      const plumb_tensor* mask, const plumb_tensor* bias,
                                      const plumb_conv_geometry_nd* geometry,
                                      const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_backward_data(at(queue, "queue").queue, data_tensors(dy, w, dx, mask, bias),
                       geometry_of(geometry), options_of(options));
  });
}

plumb_status plumb_conv_backward_data_host(const plumb_device* device, const plumb_tensor* dy,
                                           const plumb_tensor* w, const plumb_tensor* dx,
                                           const plumb_tensor* mask, const plumb_tensor* bias,
                                           const plumb_conv_geometry_nd* geometry,
                                           const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_backward_data_host(at(device, "device").device, data_tensors(dy, w, dx, mask, bias),
                            geometry_of(geometry), options_of(options));
  });
}

plumb_status plumb_conv_backward_weights(plumb_queue* queue, const plumb_tensor* x,
                                         const plumb_tensor* dy, const plumb_tensor* dw,
                                         const plumb_tensor* db, const plumb_tensor* mask,
                                         const plumb_conv_geometry_nd* geometry,
                                         const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_backward_weights(at(queue, "queue").queue, weights_tensors(x, dy, dw, db, mask),
                          geometry_of(geometry), options_of(options));
  });
}

plumb_status plumb_conv_backward_weights_host(const plumb_device* device, const plumb_tensor* x,
                                              const plumb_tensor* dy, const plumb_tensor* dw,
                                              const plumb_tensor* db, const plumb_tensor* mask,
                                              const plumb_conv_geometry_nd* geometry,
                                              const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_backward_weights_host(at(device, "device").device, weights_tensors(x, dy, dw, db, mask),
                               geometry_of(geometry), options_of(options));
  });
}

plumb_status plumb_conv_transpose(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* w,
                                  const plumb_tensor* bias, const plumb_tensor* y,
                                  const plumb_conv_geometry_nd* geometry,
                                  const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_transpose(at(queue, "queue").queue, transposed_tensors(x, w, bias, y),
                   geometry_of(geometry), options_of(options));
  });
}

plumb_status plumb_conv_transpose_host(const plumb_device* device, const plumb_tensor* x,
                                       const plumb_tensor* w, const plumb_tensor* bias,
                                       const plumb_tensor* y,
                                       const plumb_conv_geometry_nd* geometry,
                                       const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_transpose_host(at(device, "device").device, transposed_tensors(x, w, bias, y),
                        geometry_of(geometry), options_of(options));
  });
}
