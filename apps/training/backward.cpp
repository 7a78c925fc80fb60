// The gradient of the network's loss by all of its weights.
#include "training/backward.hpp"

#include <algorithm>

#include "training/gradients.hpp"

namespace plumb::app {
namespace {

template <class T>
std::int64_t count_correct(const TensorView& logits, std::span<const std::uint8_t> labels) {
  const std::int64_t k = logits.extent(1);
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const T* row = static_cast<const T*>(logits.data()) + static_cast<std::int64_t>(i) * k;
    correct += std::max_element(row, row + k) - row == labels[i];
  }
  return correct;
}

}  // namespace

Backward::Backward(const Device& device, const Network& network, std::int64_t max_batch)
    : network_(network) {
  if (device.id() != host)
    throw Error(ErrorCode::unsupported,
                "training: device " + to_string(device.id()) + ", expected the CPU");
  if (network.purpose() != Purpose::training)
    throw Error(ErrorCode::invalid_argument,
                "training: the network is for inference, and keeps no outputs before pooling");
  const DType dtype = network.dtype();
  for (int i = 0; i < parameter_count; ++i)
    gradients_[i] = Tensor(device, dtype, network.parameters()[i].extents());
  const Activations<Extents> extents =
      activation_extents(network.shape(), max_batch, Purpose::training);
  dconv1_ = Tensor(device, dtype, extents.conv1);
  dpool1_ = Tensor(device, dtype, extents.pool1);
  dconv2_ = Tensor(device, dtype, extents.conv2);
  dpool2_ = Tensor(device, dtype, extents.pool2);
  dhidden_ = Tensor(device, dtype, extents.hidden);
  dlogits_ = Tensor(device, dtype, extents.logits);
}

BatchResult Backward::run(Queue& queue, const ConstTensorView& images,
                          std::span<const std::uint8_t> labels) {
  network_.forward(queue, images);
  const std::int64_t n = images.extent(0);
  const Activations<TensorView> a = network_.activations(n);
  const PerParameter<Tensor>& w = network_.parameters();
  const PerParameter<Tensor>& dw = gradients_;
  const auto batch = [n](const Tensor& tensor) { return slice(tensor.view(), 0, 0, n); };
  const TensorView dlogits = batch(dlogits_), dhidden = batch(dhidden_), dpool2 = batch(dpool2_);
  const TensorView dconv2 = batch(dconv2_), dpool1 = batch(dpool1_), dconv1 = batch(dconv1_);
  const Extents flat = {n, w[linear1_weight].extents()[1]};

  cross_entropy_backward(a.probabilities, labels, dlogits);
  linear_backward_weights(queue, a.hidden, dlogits, dw[linear2_weight]);
  bias_backward(dlogits, dw[linear2_bias]);
  linear_backward_data(queue, dlogits, w[linear2_weight], dhidden);

  relu_backward(a.hidden, dhidden);
  linear_backward_weights(queue, reshape(a.pool2, flat), dhidden, dw[linear1_weight]);
  bias_backward(dhidden, dw[linear1_bias]);
  linear_backward_data(queue, dhidden, w[linear1_weight], reshape(dpool2, flat));

  max_pool_backward(a.conv2, dpool2, network_.shape().pool2, dconv2);
  relu_backward(a.conv2, dconv2);
  conv_backward_weights(queue, a.pool1, dconv2, dw[conv2_weight]);
  bias_backward(dconv2, dw[conv2_bias]);
  conv_backward_data(queue, dconv2, w[conv2_weight], dpool1);

  max_pool_backward(a.conv1, dpool1, network_.shape().pool1, dconv1);
  relu_backward(a.conv1, dconv1);
  conv_backward_weights(queue, a.resized, dconv1, dw[conv1_weight]);
  bias_backward(dconv1, dw[conv1_bias]);

  return {cross_entropy(a.logits, labels), network_.dtype() == DType::f64
                                               ? count_correct<double>(a.logits, labels)
                                               : count_correct<float>(a.logits, labels)};
}

}  // namespace plumb::app
