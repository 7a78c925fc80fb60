// The program's network.
#include "network.hpp"

#include <fmt/format.h>

namespace plumb::app {
namespace {

/// A convolution of these images with square filters, without padding.
Extents conv_extents(const Extents& x, std::int64_t k, std::int64_t filter) {
  return check({.n = x[0], .c = x[1], .h = x[2], .w = x[3], .k = k, .r = filter, .s = filter})
      .y_extents();
}

/// Calls f(member of a, member of b) for each activation, in order.
template <class A, class B, class F>
void for_each_activation(const Activations<A>& a, Activations<B>& b, const F& f) {
  f(a.resized, b.resized);
  f(a.conv1, b.conv1);
  f(a.pool1, b.pool1);
  f(a.conv2, b.conv2);
  f(a.pool2, b.pool2);
  f(a.hidden, b.hidden);
  f(a.logits, b.logits);
  f(a.probabilities, b.probabilities);
}

}  // namespace

const PerParameter<std::string_view> parameter_names = {
    "conv1.weight",   "conv1.bias",   "conv2.weight",   "conv2.bias",
    "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"};

const std::array<std::string_view, layer_count> layer_names = {
    "resize", "conv1", "pool1", "conv2", "pool2", "linear1", "linear2", "softmax"};

std::array<std::string, layer_count> layer_descriptions(const NetworkShape& s) {
  return {
      fmt::format("{}x{} to {}x{}", s.image_height, s.image_width, s.resized, s.resized),
      fmt::format("{} filters {}x{}, ReLU", s.conv1_channels, s.filter, s.filter),
      fmt::format("maximum of {}x{}", s.pool1, s.pool1),
      fmt::format("{} filters {}x{}, ReLU", s.conv2_channels, s.filter, s.filter),
      fmt::format("maximum of {}x{}", s.pool2, s.pool2),
      fmt::format("{} outputs, ReLU", s.hidden),
      fmt::format("{} outputs", s.classes),
      fmt::format("{} classes", s.classes),
  };
}

PoolGeometry max_pool_geometry(std::int64_t window) {
  return {.kind = PoolKind::max, .window = {window, window}, .stride = {window, window}};
}

Activations<Extents> activation_extents(const NetworkShape& shape, std::int64_t n) {
  Activations<Extents> a;
  a.resized = {n, 1, shape.resized, shape.resized};
  a.conv1 = conv_extents(a.resized, shape.conv1_channels, shape.filter);
  a.pool1 = pooled_extents(a.conv1, max_pool_geometry(shape.pool1));
  a.conv2 = conv_extents(a.pool1, shape.conv2_channels, shape.filter);
  a.pool2 = pooled_extents(a.conv2, max_pool_geometry(shape.pool2));
  a.hidden = {n, shape.hidden};
  a.logits = {n, shape.classes};
  a.probabilities = {n, shape.classes};
  return a;
}

PerParameter<Extents> parameter_extents(const NetworkShape& shape) {
  const Extents features = activation_extents(shape, 1).pool2;
  PerParameter<Extents> extents;
  extents[conv1_weight] = {shape.conv1_channels, 1, shape.filter, shape.filter};
  extents[conv1_bias] = {shape.conv1_channels};
  extents[conv2_weight] = {shape.conv2_channels, shape.conv1_channels, shape.filter, shape.filter};
  extents[conv2_bias] = {shape.conv2_channels};
  extents[linear1_weight] = {shape.hidden, element_count(features)};
  extents[linear1_bias] = {shape.hidden};
  extents[linear2_weight] = {shape.classes, shape.hidden};
  extents[linear2_bias] = {shape.classes};
  return extents;
}

Network::Network(const Device& device, const NetworkShape& shape, std::int64_t max_batch,
                 DType dtype)
    : shape_(shape) {
  const auto allocate = [&](const Extents& extents, Tensor& tensor) {
    tensor = Tensor(device, dtype, extents);
  };
  const PerParameter<Extents> extents = parameter_extents(shape);
  for (int i = 0; i < parameter_count; ++i) allocate(extents[i], parameters_[i]);
  for_each_activation(activation_extents(shape, max_batch), activations_, allocate);
}

Activations<TensorView> Network::activations(std::int64_t n) const {
  Activations<TensorView> views;
  for_each_activation(activations_, views, [n](const Tensor& tensor, TensorView& view) {
    view = slice(tensor.view(), 0, 0, n);
  });
  return views;
}

void Network::forward(Queue& queue, const ConstTensorView& images,
                      const std::function<void()>& layer_queued) const {
  const std::int64_t n = images.extent(0);
  const Activations<TensorView> a = activations(n);
  const PerParameter<Tensor>& w = parameters_;
  const ConvOptions relu{.activation = Activation::relu};

  resize_bilinear(queue, images, a.resized);
  layer_queued();
  conv(queue, {.x = a.resized, .w = w[conv1_weight], .bias = w[conv1_bias], .y = a.conv1}, {},
       relu);
  layer_queued();
  pool(queue, a.conv1, a.pool1, max_pool_geometry(shape_.pool1));
  layer_queued();
  conv(queue, {.x = a.pool1, .w = w[conv2_weight], .bias = w[conv2_bias], .y = a.conv2}, {}, relu);
  layer_queued();
  pool(queue, a.conv2, a.pool2, max_pool_geometry(shape_.pool2));
  layer_queued();
  const ConstTensorView features = reshape(a.pool2, {n, w[linear1_weight].extents()[1]});
  linear(queue, {.x = features, .w = w[linear1_weight], .bias = w[linear1_bias], .y = a.hidden},
         relu);
  layer_queued();
  linear(queue, {.x = a.hidden, .w = w[linear2_weight], .bias = w[linear2_bias], .y = a.logits});
  layer_queued();
  softmax(queue, a.logits, a.probabilities);
  layer_queued();
}

}  // namespace plumb::app
