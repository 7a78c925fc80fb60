// The gradient of the network's loss by all of its weights.
#include "training/backward.hpp"

namespace plumb::app {
namespace {

/// A gradient of x's values with the extents of x.
TensorView shaped_as(const ConstTensorView& x, const TensorView& gradient) {
  return reshape(gradient, x.extents());
}

}  // namespace

Backward::Backward(const Device& device, const Network& network, std::int64_t max_batch,
                   std::span<const std::int64_t> batches, const Planner& planner)
    : network_(network) {
  if (network.purpose() != Purpose::training)
    throw Error(ErrorCode::invalid_argument,
                "training: the network is for inference, and keeps no outputs before pooling");
  const DType dtype = network.dtype();
  for (int i = 0; i < parameter_count; ++i)
    gradients_[i] = Tensor(device, dtype, network.parameters()[i].extents());
  const Activations<Extents> extents =
      activation_extents(network.shape(), max_batch, Purpose::training);
  dconv1_ = Tensor(device, dtype, extents.conv1);
  dpool1_ = extents.pool1 == extents.conv1 ? dconv1_ : Tensor(device, dtype, extents.pool1);
  dconv2_ = Tensor(device, dtype, extents.conv2);
  dpool2_ = extents.pool2 == extents.conv2 ? dconv2_ : Tensor(device, dtype, extents.pool2);
  dhidden_ = Tensor(device, dtype, extents.hidden);
  dlogits_ = Tensor(device, dtype, extents.logits);
  for (const std::int64_t n : batches) plans_.emplace(n, plans(n, planner));
}

Backward::Views Backward::views(std::int64_t n) const {
  const auto batch = [n](const Tensor& tensor) { return slice(tensor.view(), 0, 0, n); };
  return {batch(dconv1_), batch(dpool1_),  batch(dconv2_),
          batch(dpool2_), batch(dhidden_), batch(dlogits_)};
}

Backward::BatchPlans Backward::plans(std::int64_t n, const Planner& planner) const {
  const WeightedLayers layers = network_.weighted_layers(n);
  const Views d = views(n);
  const std::array<TensorView, weighted_count> inputs = {TensorView(), d.pool1, d.pool2, d.hidden};
  const std::array<TensorView, weighted_count> outputs = {d.conv1, d.conv2, d.hidden, d.logits};
  BatchPlans result;
  for (std::size_t i = 0; i < weighted_count; ++i) {
    const ConvTensors& layer = layers[i].tensors;
    const TensorView dy = shaped_as(layer.y, outputs[i]);
    const BackwardWeightsTensors weights{.x = layer.x,
                                         .dy = dy,
                                         .dw = shaped_as(layer.w, gradients_[2 * i]),
                                         .db = gradients_[2 * i + 1]};
    LayerPlans plan{planner(backward_weights_problem(weights), {.bias = true}), weights, {}, {}};
    if (!inputs[i].empty()) {
      const BackwardDataTensors data{.dy = dy, .w = layer.w, .dx = shaped_as(layer.x, inputs[i])};
      plan.data = planner(backward_data_problem(data), {});
      plan.data_tensors = data;
    }
    result.push_back(std::move(plan));
  }
  return result;
}

void Backward::run(Queue& queue, std::int64_t n, const LabelView& labels,
                   const TensorView& loss) const {
  const Activations<TensorView> a = network_.activations(n);
  const Views d = views(n);
  const BatchPlans& layers = plans_.at(n);
  const auto layer = [&](std::size_t i) {
    layers[i].weights.execute(queue, layers[i].weights_tensors);
    if (layers[i].data) layers[i].data->execute(queue, layers[i].data_tensors);
  };
  // The maximum of what a ReLU puts out is above 0 where the element that it came from is: the mask
  // goes over what is pooled, which is smaller.
  const auto relu_and_pool = [&](const TensorView& pooled, const TensorView& dpooled,
                                 const TensorView& x, const TensorView& dx, std::int64_t window) {
    relu_backward(queue, pooled, dpooled, dpooled);
    if (window > 1) pool_backward(queue, x, dpooled, dx, max_pool_geometry(window));
  };

  softmax_cross_entropy(queue, {a.logits, labels, loss, d.logits});
  layer(3);
  relu_backward(queue, a.hidden, d.hidden, d.hidden);
  layer(2);
  relu_and_pool(a.pool2, d.pool2, a.conv2, d.conv2, network_.shape().pool2);
  layer(1);
  relu_and_pool(a.pool1, d.pool1, a.conv1, d.conv1, network_.shape().pool1);
  layer(0);
}

}  // namespace plumb::app
