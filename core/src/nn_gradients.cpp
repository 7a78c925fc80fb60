// Gradients of the operators around convolution, and the step of training: checked here, done by
// the queue's backend.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "joined_axes.hpp"
#include "nn_checks.hpp"
#include "overlap.hpp"
#include "plumb/backend.hpp"
#include "plumb/nn.hpp"
#include "ranks.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// An output may be an input's memory, as it is, or else none of it.
void refuse_other_overlap(const char* operation, const NamedView& input, const NamedView& output) {
  if (!same_memory(input.view, output.view))
    refuse_overlap(operation, input.name, input.view, output.view, output.name);
}

void check_number(const char* name, double value) {
  if (!(value >= 0) || value > std::numeric_limits<float>::max())
    refuse_argument("sgd_step", fmt::format("{} is {}; expected a number from 0 on, within the "
                                            "range of f32",
                                            name, value));
}

/// Labels as numbers of eight bytes, whose place and strides can be checked.
ConstTensorView as_view(const LabelView& labels) {
  return {labels.data, DType::f64, {labels.count}, labels.device, {labels.stride}};
}

}  // namespace

void relu_backward(Queue& queue, const ConstTensorView& y, const ConstTensorView& dy,
                   const TensorView& dx) {
  constexpr const char* name = "relu_backward";
  check_one_dtype(name, {{"y", y}, {"dy", dy}, {"dx", dx}});
  check_input(name, queue, {"y", y});
  check_input(name, queue, {"dy", dy});
  check_output(name, queue, {"dx", dx});
  check_extents(name, {"dy", dy}, y.extents());
  check_extents(name, {"dx", dx}, y.extents());
  refuse_other_overlap(name, {"y", y}, {"dx", dx});
  refuse_other_overlap(name, {"dy", dy}, {"dx", dx});
  if (element_count(dx.extents()) == 0) return;
  for_each_part<3>({ConstTensorView(dx), y, dy}, [&](const auto& parts) {
    queue.backend().relu_backward(parts[1], parts[2], writable(parts[0]));
  });
  synchronize_if_asked(queue);
}

void pool_backward(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx, const PoolGeometry& geometry) {
  constexpr const char* name = "pool_backward";
  const bool looks_at_x = geometry.kind == PoolKind::max;
  check_one_dtype(name, {{"dy", dy}, {"dx", dx}});
  check_input(name, queue, {"dy", dy});
  check_output(name, queue, {"dx", dx});
  check_extents(name, {"dy", dy}, pooled_extents(dx.extents(), geometry));
  refuse_overlap(name, "dy", dy, dx, "dx");
  if (looks_at_x && x.empty())
    refuse_argument(name, "x is missing; expected a tensor, since a maximum is taken");
  if (looks_at_x) {
    check_one_dtype(name, {{"x", x}, {"dx", dx}});
    check_input(name, queue, {"x", x});
    check_extents(name, {"x", x}, dx.extents());
    refuse_overlap(name, "x", x, dx, "dx");
  }
  if (element_count(dx.extents()) == 0) return;
  queue.backend().pool_backward({looks_at_x ? with_all_axes(x) : ConstTensorView(),
                                 with_all_axes(dy), with_all_axes(dx),
                                 geometry_of_rank(geometry, dx.rank())});
  synchronize_if_asked(queue);
}

void linear_backward(Queue& queue, const LinearBackwardTensors& tensors,
                     const ConvOptions& options) {
  static constexpr const char* name = "linear_backward";
  const auto as_image = [](const auto& view, const char* letter) {
    using View = std::remove_cvref_t<decltype(view)>;
    if (view.empty()) return View();
    check_rank(name, {letter, view}, 2, "two");
    check_layout(name, letter, view.extents(), view.strides());
    return View(view.data(), view.dtype(), {view.extent(0), view.extent(1), 1, 1}, view.device(),
                {view.stride(0), view.stride(1), 1, 1});
  };
  const auto needed = [](const ConstTensorView& view, const char* letter, const char* what) {
    if (view.empty())
      refuse_argument(
          name, fmt::format("{} is missing; expected a tensor, since {} is given", letter, what));
  };
  if (tensors.dx.empty() && tensors.dw.empty())
    refuse_argument(name, "neither dx nor dw is given; expected one of them");
  if (tensors.dw.empty() && !tensors.db.empty())
    refuse_argument(name, "db is given without dw; expected both");
  if (!tensors.dx.empty()) needed(tensors.w, "w", "dx");
  if (!tensors.dw.empty()) needed(tensors.x, "x", "dw");
  if (!tensors.dx.empty() && !tensors.dw.empty())
    refuse_overlap(name, "dw", tensors.dw, tensors.dx, "dx");
  // What the one writes the other must still be able to read.
  const auto apart = [](const NamedView& input, const NamedView& output) {
    if (!input.view.empty() && !output.view.empty())
      refuse_overlap(name, input.name, input.view, output.view, output.name);
  };
  apart({"w", tensors.w}, {"dw", tensors.dw});
  apart({"x", tensors.x}, {"dx", tensors.dx});
  apart({"dx", tensors.dx}, {"db", tensors.db});
  const ConstTensorView dy = as_image(tensors.dy, "dy"), mask = as_image(tensors.mask, "mask");
  if (!tensors.dw.empty())
    conv_backward_weights(queue,
                          {.x = as_image(tensors.x, "x"),
                           .dy = dy,
                           .dw = as_image(tensors.dw, "dw"),
                           .db = tensors.db,
                           .mask = mask},
                          {}, options);
  if (!tensors.dx.empty())
    conv_backward_data(
        queue,
        {.dy = dy, .w = as_image(tensors.w, "w"), .dx = as_image(tensors.dx, "dx"), .mask = mask},
        {}, options);
}

void resize_bilinear_backward(Queue& queue, const ConstTensorView& dy, const TensorView& dx) {
  constexpr const char* name = "resize_bilinear_backward";
  check_one_dtype(name, {{"dy", dy}, {"dx", dx}});
  check_input(name, queue, {"dy", dy});
  check_output(name, queue, {"dx", dx});
  check_rank(name, {"dx", dx}, 4, "four, N C H W");
  check_rank(name, {"dy", dy}, 4, "four, N C P Q");
  check_size(name, "H", dx.extent(2), 1);
  check_size(name, "W", dx.extent(3), 1);
  check_extents(name, {"dy", dy}, {dx.extent(0), dx.extent(1), dy.extent(2), dy.extent(3)});
  refuse_overlap(name, "dy", dy, dx, "dx");
  if (element_count(dx.extents()) == 0) return;
  queue.backend().resize_bilinear_backward(dy, dx);
  synchronize_if_asked(queue);
}

void softmax_cross_entropy(Queue& queue, const CrossEntropyTensors& tensors, double scale) {
  constexpr const char* name = "softmax_cross_entropy";
  const auto& [logits, labels, loss, dlogits] = tensors;
  const bool has_loss = !loss.empty(), has_gradient = !dlogits.empty();
  if (!has_loss && !has_gradient)
    refuse_argument(name, "neither loss nor dlogits is given; expected one of them");
  check_input(name, queue, {"logits", logits});
  check_rank(name, {"logits", logits}, 2, "two, N C");
  check_size(name, "C", logits.extent(1), 1);
  if (labels.count != logits.extent(0))
    refuse_argument(name, fmt::format("there are {} labels; expected {}, one for each image",
                                      labels.count, logits.extent(0)));
  const ConstTensorView label_view = as_view(labels);
  check_input(name, queue, {"labels", label_view});
  if (has_loss) {
    check_output(name, queue, {"loss", loss});
    check_extents(name, {"loss", loss}, {1});
    refuse_overlap(name, "logits", logits, loss, "loss");
    refuse_overlap(name, "labels", label_view, loss, "loss");
  }
  if (has_gradient) {
    check_one_dtype(name, {{"logits", logits}, {"dlogits", dlogits}});
    check_output(name, queue, {"dlogits", dlogits});
    check_extents(name, {"dlogits", dlogits}, logits.extents());
    refuse_other_overlap(name, {"logits", logits}, {"dlogits", dlogits});
    refuse_overlap(name, "labels", label_view, dlogits, "dlogits");
  }
  if (has_loss && has_gradient) refuse_overlap(name, "dlogits", dlogits, loss, "loss");
  const std::int64_t n = logits.extent(0);
  if (n == 0 && !has_loss) return;
  double* losses = nullptr;
  if (has_loss && n > 0)
    losses = static_cast<double*>(queue.workspace(static_cast<std::size_t>(n) * sizeof(double)));
  queue.backend().softmax_cross_entropy({.logits = logits,
                                         .labels = labels.data,
                                         .label_stride = labels.stride,
                                         .loss = loss,
                                         .dlogits = dlogits,
                                         .scale = scale,
                                         .losses = losses});
  synchronize_if_asked(queue);
}

void sgd_step(Queue& queue, const SgdTensors& tensors, const SgdOptions& options) {
  constexpr const char* name = "sgd_step";
  const auto& [w, dw, velocity] = tensors;
  check_number("learning_rate", options.learning_rate);
  check_number("momentum", options.momentum);
  check_number("weight_decay", options.weight_decay);
  const bool has_velocity = options.momentum > 0;
  if (options.nesterov && !has_velocity)
    refuse_argument(name, "nesterov without a momentum; expected a momentum above 0");
  if (has_velocity == velocity.empty())
    refuse_argument(name, has_velocity ? "velocity is missing; expected a tensor, since there is "
                                         "a momentum"
                                       : "velocity is given without a momentum; expected none");
  check_one_dtype(name, {{"w", w}, {"dw", dw}});
  check_output(name, queue, {"w", w});
  check_input(name, queue, {"dw", dw});
  check_extents(name, {"dw", dw}, w.extents());
  refuse_overlap(name, "dw", dw, w, "w");
  if (has_velocity) {
    check_one_dtype(name, {{"w", w}, {"velocity", velocity}});
    check_output(name, queue, {"velocity", velocity});
    check_extents(name, {"velocity", velocity}, w.extents());
    refuse_overlap(name, "w", w, velocity, "velocity");
    refuse_overlap(name, "dw", dw, velocity, "velocity");
  }
  if (element_count(w.extents()) == 0) return;
  // Where there is no velocity, w stands in its place and is not looked at there.
  const ConstTensorView third = has_velocity ? ConstTensorView(velocity) : ConstTensorView(w);
  for_each_part<3>({ConstTensorView(w), dw, third}, [&](const auto& parts) {
    queue.backend().sgd_step({.w = writable(parts[0]),
                              .dw = parts[1],
                              .velocity = has_velocity ? writable(parts[2]) : TensorView(),
                              .options = options});
  });
  synchronize_if_asked(queue);
}

}  // namespace plumb
