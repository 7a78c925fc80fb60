// plumb.conv, its gradients and the transposed convolution.
#include <nanobind/nanobind.h>

#include "arguments.hpp"
#include "graphs.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "plumb/error.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

using namespace nanobind::literals;

int axes_of(const Array& image) { return image.view().rank() - 2; }

void need_out_to_add(bool accumulate, nb::handle out) {
  if (accumulate && out.is_none())
    throw Error(ErrorCode::invalid_argument,
                "accumulate is True and out is None; expected the array that is added to");
}

/// The extents of an image with its batch and channels, of the caller's number of axes.
Extents image_extents(std::int64_t n, std::int64_t channels, const Triple& image, int axes) {
  if (axes == 1) return {n, channels, image.w};
  if (axes == 2) return {n, channels, image.h, image.w};
  return {n, channels, image.d, image.h, image.w};
}

/// What an image gradient's extents are where the caller does not say: those of `shape`, or the
/// least.
Extents gradient_extents(nb::handle shape, const Array& dy, const Array& w,
                         const ConvGeometry& geometry) {
  if (shape.is_none()) return transposed_extents(dy.view().extents(), w.view().extents(), geometry);
  return extents_from(shape, "x_shape");
}

nb::object conv_call(nb::handle x_object, nb::handle w_object, nb::handle bias_object,
                     nb::handle stride, nb::handle padding, nb::handle dilation,
                     std::int64_t groups, nb::handle boundary, nb::handle math,
                     nb::handle activation, nb::handle out, bool accumulate, nb::handle algorithm,
                     bool deterministic, bool reproducible, nb::handle providers) {
  const Array x(x_object, "x"), w(w_object, "w"), bias(bias_object, "bias");
  need_out_to_add(accumulate, out);
  const int axes = axes_of(x);
  const ConvGeometry geometry =
      geometry_from({stride, padding, dilation, groups, boundary}, axes, w.view().extents());
  ConvOptions options =
      options_from({math, activation, algorithm, accumulate, deterministic, reproducible});
  ConvTensors tensors{.x = x.view(), .w = w.view(), .bias = bias.view()};
  Extents extents;
  if (out.is_none()) {
    const ConvProblem problem = problem_of(tensors, geometry);
    extents = image_extents(problem.n, problem.k, {problem.z(), problem.p(), problem.q()}, axes);
  }
  const DeviceId id = device_of({&x, &w, &bias});
  Output y(out, x, extents);
  tensors.y = y.view();
  const Device device = device_for(id, providers);
  Queue& queue = queue_for(device, x.framework());
  if (records(queue, x.framework())) {
    record_conv(queue, x, problem_of(tensors, geometry), tensors, std::move(options));
  } else {
    const nb::gil_scoped_release released;
    conv(queue, tensors, geometry, std::move(options));
    settle(queue, x.framework());
  }
  return y.take();
}

nb::object backward_data_call(nb::handle dy_object, nb::handle w_object, nb::handle x_shape,
                              nb::handle mask_object, nb::handle bias_object, nb::handle stride,
                              nb::handle padding, nb::handle dilation, std::int64_t groups,
                              nb::handle boundary, nb::handle math, nb::handle out, bool accumulate,
                              nb::handle algorithm, bool deterministic, bool reproducible,
                              nb::handle providers) {
  const Array dy(dy_object, "dy"), w(w_object, "w"), mask(mask_object, "mask"),
      bias(bias_object, "bias");
  need_out_to_add(accumulate, out);
  const ConvGeometry geometry =
      geometry_from({stride, padding, dilation, groups, boundary}, axes_of(dy), w.view().extents());
  ConvOptions options =
      options_from({math, nb::none(), algorithm, accumulate, deterministic, reproducible});
  const DeviceId id = device_of({&dy, &w, &mask, &bias});
  Output dx(out, dy, out.is_none() ? gradient_extents(x_shape, dy, w, geometry) : Extents());
  const Device device = device_for(id, providers);
  const BackwardDataTensors tensors{
      .dy = dy.view(), .w = w.view(), .dx = dx.view(), .mask = mask.view(), .bias = bias.view()};
  Queue& queue = queue_for(device, dy.framework());
  if (records(queue, dy.framework())) {
    record_conv(queue, dy, backward_data_problem(tensors, geometry), tensors, std::move(options));
  } else {
    const nb::gil_scoped_release released;
    conv_backward_data(queue, tensors, geometry, std::move(options));
    settle(queue, dy.framework());
  }
  return dx.take();
}

nb::object backward_weights_call(nb::handle x_object, nb::handle dy_object, nb::handle w_shape,
                                 nb::handle mask_object, bool bias, nb::handle stride,
                                 nb::handle padding, nb::handle dilation, std::int64_t groups,
                                 nb::handle boundary, nb::handle math, nb::handle out,
                                 bool accumulate, nb::handle algorithm, bool deterministic,
                                 bool reproducible, nb::handle providers) {
  const Array x(x_object, "x"), dy(dy_object, "dy"), mask(mask_object, "mask");
  need_out_to_add(accumulate, out);
  if (bias && accumulate)
    throw Error(ErrorCode::invalid_argument,
                "accumulate and bias are True; expected one of them, since the bias's gradient is "
                "a new array");
  if (out.is_none() && w_shape.is_none())
    throw Error(ErrorCode::invalid_argument, "w_shape and out are None; expected the shape of w");
  const Extents extents = out.is_none() ? extents_from(w_shape, "w_shape") : Extents();
  const DeviceId id = device_of({&x, &dy, &mask});
  Output dw(out, x, extents);
  const ConvGeometry geometry =
      geometry_from({stride, padding, dilation, groups, boundary}, axes_of(x), dw.view().extents());
  ConvOptions options =
      options_from({math, nb::none(), algorithm, accumulate, deterministic, reproducible});
  std::optional<Output> db;
  if (bias)
    db.emplace(nb::none(), x, Extents{dy.view().rank() > 1 ? dy.view().extent(1) : 1}, "db");
  const Device device = device_for(id, providers);
  const BackwardWeightsTensors tensors{.x = x.view(),
                                       .dy = dy.view(),
                                       .dw = dw.view(),
                                       .db = db ? db->view() : TensorView(),
                                       .mask = mask.view()};
  Queue& queue = queue_for(device, x.framework());
  if (records(queue, x.framework())) {
    record_conv(queue, x, backward_weights_problem(tensors, geometry), tensors, std::move(options));
  } else {
    const nb::gil_scoped_release released;
    conv_backward_weights(queue, tensors, geometry, std::move(options));
    settle(queue, x.framework());
  }
  if (!db) return dw.take();
  return nb::make_tuple(dw.take(), db->take());
}

nb::object transpose_call(nb::handle x_object, nb::handle w_object, nb::handle bias_object,
                          nb::handle stride, nb::handle padding, nb::handle output_padding,
                          nb::handle dilation, std::int64_t groups, nb::handle boundary,
                          nb::handle math, nb::handle activation, nb::handle out, bool accumulate,
                          nb::handle algorithm, bool deterministic, bool reproducible,
                          nb::handle providers) {
  const Array x(x_object, "x"), w(w_object, "w"), bias(bias_object, "bias");
  need_out_to_add(accumulate, out);
  const int axes = axes_of(x);
  const ConvGeometry geometry =
      geometry_from({stride, padding, dilation, groups, boundary}, axes, w.view().extents());
  ConvOptions options =
      options_from({math, activation, algorithm, accumulate, deterministic, reproducible});
  Extents extents;
  if (out.is_none()) {
    extents = transposed_extents(x.view().extents(), w.view().extents(), geometry,
                                 triple_from(output_padding, axes, "output_padding"));
  }
  const DeviceId id = device_of({&x, &w, &bias});
  Output y(out, x, extents);
  const Device device = device_for(id, providers);
  const TransposedTensors tensors{.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()};
  Queue& queue = queue_for(device, x.framework());
  if (records(queue, x.framework())) {
    record_conv(queue, x, transposed_problem(tensors, geometry), tensors, std::move(options));
  } else {
    const nb::gil_scoped_release released;
    conv_transpose(queue, tensors, geometry, std::move(options));
    settle(queue, x.framework());
  }
  return y.take();
}

}  // namespace

void bind_convolutions(nb::module_& module) {
  module.def("conv", conv_call, "x"_a, "w"_a, "bias"_a.none() = nb::none(), nb::kw_only(),
             "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1,
             "boundary"_a = "zeros", "math"_a = "fp32", "activation"_a.none() = nb::none(),
             "out"_a.none() = nb::none(), "accumulate"_a = false, "algorithm"_a.none() = nb::none(),
             "deterministic"_a = false, "reproducible"_a = false, "providers"_a.none() = nb::none(),
             R"(Convolve x with the filters w, as neural networks do (cross-correlation).

x is [N, C, W], [N, C, H, W] or [N, C, D, H, W]; w is [K, C/groups, S], [K, C/groups, R, S] or
[K, C/groups, T, R, S]; bias is [K]. Returns [N, K, Q], [N, K, P, Q] or [N, K, Z, P, Q], an array of the
kind of x on its device, or `out`.

stride, padding, dilation: a number, or one for each axis of the image. padding may also be a pair for each
    axis, (before, after), or "valid" or "same".
boundary: what lies in the padding, for all axes or one for each: "zeros", "periodic" (or "circular"),
    "reflect", "symmetric", "clamp" (or "replicate").
math: the least accurate arithmetic that may be chosen: "fp64", "fp32", "tf32", "bf16" or "fp16". Arrays of
    float64 are computed in double.
activation: None or "relu", of the sum with the bias.
accumulate: the convolution is added to what `out` holds.
algorithm: None, or the name of the one to run.
deterministic: only algorithms that give the same bits every time are chosen.
reproducible: the result has the bits that the documentation specifies (docs/numerics.md), the same on every
    device, for any number of threads, batch and layout.
providers: other libraries whose algorithms may be chosen where they are the faster by a tuned time, "cudnn,onednn",
    or "none"; None: those that PLUMB_PROVIDERS names.)");

  module.def("conv_backward_data", backward_data_call, "dy"_a, "w"_a,
             "x_shape"_a.none() = nb::none(), nb::kw_only(), "mask"_a.none() = nb::none(),
             "bias"_a.none() = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
             "groups"_a = 1, "boundary"_a = "zeros", "math"_a = "fp32", "out"_a.none() = nb::none(),
             "accumulate"_a = false, "algorithm"_a.none() = nb::none(), "deterministic"_a = false,
             "reproducible"_a = false, "providers"_a.none() = nb::none(),
             R"(Return the gradient by x of sum(conv(x, w) * dy).

dy is [N, K, P, Q] and w [K, C/groups, R, S], or with one or three axes of the image. x_shape is the shape of
x, [N, C, H, W]; without it, and without `out`, the least that gives dy's.
mask: the output of the ReLU that followed, of dy's shape: dy counts where it is above 0, which a NaN is not.
bias: [C], added to each channel of the result.
The others are those of conv.)");

  module.def("conv_backward_weights", backward_weights_call, "x"_a, "dy"_a,
             "w_shape"_a.none() = nb::none(), nb::kw_only(), "mask"_a.none() = nb::none(),
             "bias"_a = false, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1,
             "boundary"_a = "zeros", "math"_a = "fp32", "out"_a.none() = nb::none(),
             "accumulate"_a = false, "algorithm"_a.none() = nb::none(), "deterministic"_a = false,
             "reproducible"_a = false, "providers"_a.none() = nb::none(),
             R"(Return the gradient by w of sum(conv(x, w) * dy), of shape w_shape.

x is [N, C, H, W] and dy [N, K, P, Q], or with one or three axes of the image.
bias: whether the gradient by the bias, [K], is returned too: (dw, db).
mask: the output of the ReLU that followed, of dy's shape: dy counts where it is above 0, which a NaN is not.
The others are those of conv.)");

  module.def("conv_transpose", transpose_call, "x"_a, "w"_a, "bias"_a.none() = nb::none(),
             nb::kw_only(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
             "dilation"_a = 1, "groups"_a = 1, "boundary"_a = "zeros", "math"_a = "fp32",
             "activation"_a.none() = nb::none(), "out"_a.none() = nb::none(),
             "accumulate"_a = false, "algorithm"_a.none() = nb::none(), "deterministic"_a = false,
             "reproducible"_a = false, "providers"_a.none() = nb::none(),
             R"(Convolve x with the filters w, transposed, as PyTorch's conv_transpose does.

x is [N, K, P, Q] and w [K, C/groups, R, S], or with one or three axes of the image; bias is [C]. Returns
[N, C, H, W] with H = (P - 1) stride - padding before and after + dilation (R - 1) + 1 + output_padding.
The others are those of conv.)");
}

}  // namespace plumb::python
