// The operators around convolution.
#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "arguments.hpp"
#include "graphs.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "plumb/error.hpp"
#include "plumb/nn.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

using namespace nanobind::literals;

/// Runs one operator from x to an output of these extents.
template <class Run>
nb::object run_operator(const Array& x, nb::handle out, const Extents& extents, Run run) {
  Output y(out, x, extents);
  const Device device = opened(device_of({&x}));
  Queue& queue = queue_for(device, x.framework());
  {
    const nb::gil_scoped_release released;
    run(queue, x.view(), y.view());
    settle(queue, x.framework());
  }
  return y.take();
}

nb::object pool_call(nb::handle x_object, PoolGeometry geometry, nb::handle window,
                     nb::handle stride, nb::handle padding, nb::handle dilation, nb::handle out) {
  const Array x(x_object, "x");
  const int axes = x.view().rank() - 2;
  if (axes < 1 || axes > 3)
    throw Error(ErrorCode::invalid_argument,
                "x has " + std::to_string(axes + 2) +
                    " axes; expected 3 to 5: batch, channels and one to three of the image");
  geometry.window = triple_from(window, axes, "window");
  geometry.stride = stride.is_none() ? geometry.window : triple_from(stride, axes, "stride");
  geometry.dilation = triple_from(dilation, axes, "dilation");
  geometry.padding = padding_from(padding, axes);
  return run_operator(x, out, pooled_extents(x.view().extents(), geometry),
                      [&](Queue& queue, const ConstTensorView& from, const TensorView& to) {
                        pool(queue, from, to, geometry);
                      });
}

nb::object max_pool(nb::handle x, nb::handle window, nb::handle stride, nb::handle padding,
                    nb::handle dilation, bool ceil_mode, nb::handle out) {
  return pool_call(x, {.kind = PoolKind::max, .ceil_mode = ceil_mode}, window, stride, padding,
                   dilation, out);
}

nb::object avg_pool(nb::handle x, nb::handle window, nb::handle stride, nb::handle padding,
                    bool ceil_mode, bool count_include_pad, nb::handle out) {
  return pool_call(
      x, {.kind = PoolKind::average, .ceil_mode = ceil_mode, .count_padding = count_include_pad},
      window, stride, padding, nb::int_(1), out);
}

/// A matrix as images of one pixel.
TensorView as_image(const TensorView& matrix) {
  return {matrix.data(),
          matrix.dtype(),
          {matrix.extent(0), matrix.extent(1), 1},
          matrix.device(),
          {matrix.stride(0), matrix.stride(1), 1}};
}

nb::object linear_call(nb::handle x_object, nb::handle w_object, nb::handle bias_object,
                       nb::handle math, nb::handle activation, nb::handle out) {
  const Array x(x_object, "x"), w(w_object, "w"), bias(bias_object, "bias");
  if (x.view().rank() != 2 || w.view().rank() != 2)
    throw Error(ErrorCode::invalid_argument,
                "x and w have shapes " + to_string(x.view().extents()) + " and " +
                    to_string(w.view().extents()) + "; expected [N, C] and [K, C]");
  const Device device = opened(device_of({&x, &w, &bias}));
  const ConvOptions options = options_from({math, activation, nb::none(), false, false, false});
  Output y(out, x, {x.view().extent(0), w.view().extent(0)});
  Queue& queue = queue_for(device, x.framework());
  if (records(queue, x.framework()) && y.view().rank() == 2) {
    const ConvTensors images{.x = as_image(x.view()),
                             .w = as_image(w.view()),
                             .bias = bias.view(),
                             .y = as_image(y.view())};
    record_conv(queue, x, problem_of(images), images, options);
  } else {
    const nb::gil_scoped_release released;
    linear(queue, {.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()}, options);
    settle(queue, x.framework());
  }
  return y.take();
}

nb::object relu_call(nb::handle x_object, nb::handle out) {
  const Array x(x_object, "x");
  return run_operator(x, out, x.view().extents(), relu);
}

nb::object softmax_call(nb::handle x_object, nb::handle out) {
  const Array x(x_object, "x");
  return run_operator(x, out, x.view().extents(), softmax);
}

nb::object resize_call(nb::handle x_object, nb::handle size, nb::handle out) {
  const Array x(x_object, "x");
  const Extents asked = extents_from(size, "size");
  if (x.view().rank() != 4 || asked.rank() != 2)
    throw Error(ErrorCode::invalid_argument, "x and size have " + std::to_string(x.view().rank()) +
                                                 " axes and " + std::to_string(asked.rank()) +
                                                 " values; expected 4 and 2");
  return run_operator(x, out, {x.view().extent(0), x.view().extent(1), asked[0], asked[1]},
                      resize_bilinear);
}

}  // namespace

void bind_operators(nb::module_& module) {
  module.def(
      "max_pool", max_pool, "x"_a, "window"_a, "stride"_a.none() = nb::none(), "padding"_a = 0,
      "dilation"_a = 1, "ceil_mode"_a = false, nb::kw_only(), "out"_a.none() = nb::none(),
      R"(Return the maximum over each window of x, [N, C, H, W] or with one or three axes of the image.

The stride is the window's size unless given; padding never wins.)");
  module.def(
      "avg_pool", avg_pool, "x"_a, "window"_a, "stride"_a.none() = nb::none(), "padding"_a = 0,
      "ceil_mode"_a = false, "count_include_pad"_a = true, nb::kw_only(),
      "out"_a.none() = nb::none(),
      R"(Return the average over each window of x, [N, C, H, W] or with one or three axes of the image.

The stride is the window's size unless given.)");
  module.def("linear", linear_call, "x"_a, "w"_a, "bias"_a.none() = nb::none(), nb::kw_only(),
             "math"_a = "fp32", "activation"_a.none() = nb::none(), "out"_a.none() = nb::none(),
             "Return x w^T + bias, with x [N, C], w [K, C] and bias [K]: [N, K].");
  module.def("relu", relu_call, "x"_a, nb::kw_only(), "out"_a.none() = nb::none(),
             "Return max(x, 0); `out` may be x itself.");
  module.def("softmax", softmax_call, "x"_a, nb::kw_only(), "out"_a.none() = nb::none(),
             "Return exp(x) over its sum along the last axis of x, [N, C]; `out` may be x itself.");
  module.def(
      "resize_bilinear", resize_call, "x"_a, "size"_a, nb::kw_only(), "out"_a.none() = nb::none(),
      "Return x, [N, C, H, W], interpolated to size (P, Q) with half-pixel centres: [N, C, P, Q].");
}

}  // namespace plumb::python
