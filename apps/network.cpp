// The program's network.
#include "network.hpp"

#include <fmt/format.h>

namespace plumb::app {
namespace {

/// A convolution of these images with square filters, without padding.
ConvProblem conv_problem(const Extents& x, std::int64_t k, std::int64_t filter) {
  return {.n = x[0], .c = x[1], .h = x[2], .w = x[3], .k = k, .r = filter, .s = filter};
}

/// How much of a maximum over windows is taken by the convolution, and what is left for windows of
/// those maxima. Maxima of maxima are the same, and whole windows hold whole windows of 2x2.
struct SplitPool {
  Pool in_conv = Pool::none;
  std::int64_t window_after;  ///< 1: nothing is left
};
SplitPool split_pool(std::int64_t window, Purpose purpose) {
  if (purpose == Purpose::training || window % 2 != 0) return {Pool::none, window};
  return {Pool::max_2x2, window / 2};
}

/// A convolution and what pools behind it, as layers.
void add_block(std::vector<Layer>& layers, std::string_view conv, std::string_view pool,
               std::int64_t filters, std::int64_t filter, std::int64_t window, Purpose purpose) {
  const SplitPool split = split_pool(window, purpose);
  layers.push_back({conv, fmt::format("{} filters {}x{}, ReLU{}", filters, filter, filter,
                                      split.in_conv == Pool::none ? "" : ", maximum of 2x2")});
  if (split.window_after > 1)
    layers.push_back({pool, fmt::format("maximum of {0}x{0}{1}", split.window_after,
                                        split.in_conv == Pool::none ? "" : " of those")});
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
std::vector<Layer> layers_of(const NetworkShape& s, Purpose purpose) {
  std::vector<Layer> layers;
  layers.push_back({"resize", fmt::format("{}x{} to {}x{}", s.image_height, s.image_width,
                                          s.resized, s.resized)});
  add_block(layers, "conv1", "pool1", s.conv1_channels, s.filter, s.pool1, purpose);
  add_block(layers, "conv2", "pool2", s.conv2_channels, s.filter, s.pool2, purpose);
  layers.push_back({"linear1", fmt::format("{} outputs, ReLU", s.hidden)});
  layers.push_back({"linear2", fmt::format("{} outputs", s.classes)});
  layers.push_back({"softmax", fmt::format("{} classes", s.classes)});
  return layers;
}

PoolGeometry max_pool_geometry(std::int64_t window) {
  return {.kind = PoolKind::max, .window = {window, window}, .stride = {window, window}};
}

Activations<Extents> activation_extents(const NetworkShape& shape, std::int64_t n,
                                        Purpose purpose) {
  const auto block = [&](const Extents& x, std::int64_t k, std::int64_t window, Extents& conv,
                         Extents& pool) {
    const SplitPool split = split_pool(window, purpose);
    ConvProblem problem = conv_problem(x, k, shape.filter);
    problem.pool = split.in_conv;
    conv = check(problem).y_extents();
    pool = pooled_extents(conv, max_pool_geometry(split.window_after));
  };
  Activations<Extents> a;
  a.resized = {n, 1, shape.resized, shape.resized};
  block(a.resized, shape.conv1_channels, shape.pool1, a.conv1, a.pool1);
  block(a.pool1, shape.conv2_channels, shape.pool2, a.conv2, a.pool2);
  a.hidden = {n, shape.hidden};
  a.logits = {n, shape.classes};
  a.probabilities = {n, shape.classes};
  return a;
}

PerParameter<Extents> parameter_extents(const NetworkShape& shape) {
  const Extents features = activation_extents(shape, 1, Purpose::inference).pool2;
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
                 Purpose purpose, DType dtype)
    : shape_(shape), purpose_(purpose) {
  const auto allocate = [&](const Extents& extents, Tensor& tensor) {
    tensor = Tensor(device, dtype, extents);
  };
  const PerParameter<Extents> extents = parameter_extents(shape);
  for (int i = 0; i < parameter_count; ++i) allocate(extents[i], parameters_[i]);
  const Activations<Extents> outputs = activation_extents(shape, max_batch, purpose);
  for_each_activation(outputs, activations_, allocate);
  if (outputs.conv1 == outputs.pool1) activations_.conv1 = activations_.pool1;
  if (outputs.conv2 == outputs.pool2) activations_.conv2 = activations_.pool2;
}

Activations<TensorView> Network::activations(std::int64_t n) const {
  Activations<TensorView> views;
  for_each_activation(activations_, views, [n](const Tensor& tensor, TensorView& view) {
    view = slice(tensor.view(), 0, 0, n);
  });
  return views;
}

WeightedLayers Network::weighted_layers(std::int64_t n) const {
  const Activations<TensorView> a = activations(n);
  const PerParameter<Tensor>& w = parameters_;
  const auto pixel = [](const TensorView& view) {
    return reshape(view, {view.extent(0), element_count(view.extents()) / view.extent(0), 1, 1});
  };
  const Pool pool1 = split_pool(shape_.pool1, purpose_).in_conv;
  const Pool pool2 = split_pool(shape_.pool2, purpose_).in_conv;
  const ConvOptions plain{.bias = true}, relu{.bias = true, .activation = Activation::relu};
  return {{{{.x = a.resized, .w = w[conv1_weight], .bias = w[conv1_bias], .y = a.conv1},
            {.pool = pool1},
            relu},
           {{.x = a.pool1, .w = w[conv2_weight], .bias = w[conv2_bias], .y = a.conv2},
            {.pool = pool2},
            relu},
           {{.x = pixel(a.pool2),
             .w = pixel(w[linear1_weight]),
             .bias = w[linear1_bias],
             .y = pixel(a.hidden)},
            {},
            relu},
           {{.x = pixel(a.hidden),
             .w = pixel(w[linear2_weight]),
             .bias = w[linear2_bias],
             .y = pixel(a.logits)},
            {},
            plain}}};
}

void Network::plan(std::span<const std::int64_t> batches, const Planner& planner) {
  for (const std::int64_t n : batches) {
    std::vector<Planned> layers;
    for (const auto& [tensors, geometry, options] : weighted_layers(n))
      layers.push_back({planner(problem_of(tensors, geometry), options), {}});
    planned_.insert_or_assign(n, std::move(layers));
  }
}

void Network::pack_filters(Queue& queue, std::span<const std::int64_t> batches) {
  for (const std::int64_t n : batches) {
    std::vector<Planned> layers;
    for (const auto& [tensors, geometry, options] : weighted_layers(n)) {
      const ConvPlan plan(queue.device(), problem_of(tensors, geometry), options);
      // Most often the algorithm is that of another batch, which has packed them already.
      PackedFilters filters;
      for (const auto& [other, planned] : planned_)
        if (plan.takes(planned[layers.size()].filters)) filters = planned[layers.size()].filters;
      layers.push_back({plan, filters.empty() ? plan.pack(queue, tensors.w) : filters});
    }
    planned_.insert_or_assign(n, std::move(layers));
  }
}

void Network::forward(Queue& queue, const ConstTensorView& images,
                      const std::function<void()>& layer_queued) const {
  const std::int64_t n = images.extent(0);
  const Activations<TensorView> a = activations(n);
  const auto layers = weighted_layers(n);
  const auto planned = planned_.find(n);
  const auto run = [&](std::size_t i) {
    auto [tensors, geometry, options] = layers[i];
    if (planned == planned_.end()) {
      conv(queue, tensors, geometry, options);
    } else if (const auto& [plan, filters] = planned->second[i]; filters.empty()) {
      plan.execute(queue, tensors);
    } else {
      tensors.w = {};
      plan.execute(queue, filters, tensors);
    }
    layer_queued();
  };
  // What the convolution did not pool of its layer.
  const auto pool_rest = [&](const TensorView& x, const TensorView& y, std::int64_t window) {
    const std::int64_t rest = split_pool(window, purpose_).window_after;
    if (rest == 1) return;
    pool(queue, x, y, max_pool_geometry(rest));
    layer_queued();
  };

  resize_bilinear(queue, images, a.resized);
  layer_queued();
  run(0);
  pool_rest(a.conv1, a.pool1, shape_.pool1);
  run(1);
  pool_rest(a.conv2, a.pool2, shape_.pool2);
  run(2);
  run(3);
  softmax(queue, a.logits, a.probabilities);
  layer_queued();
}

}  // namespace plumb::app
