// The gradient of the network's loss by all of its weights, on the device that the network is on:
// the library's own gradients, planned once for each size of a batch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "network.hpp"

namespace plumb::app {

/// Gradients of a network's weights and activations, allocated once.
class Backward {
 public:
  /// Plans for batches of these sizes, none above `max_batch`. `network` must outlive it. Throws
  /// Error (invalid_argument) where that is for inference.
  Backward(const Device& device, const Network& network, std::int64_t max_batch,
           std::span<const std::int64_t> batches, const Planner& planner);

  /// Puts the gradients of the mean cross-entropy of the batch of n that network.forward() was run
  /// on last on the queue, and that mean itself, into `loss` [1].
  void run(Queue& queue, std::int64_t n, const LabelView& labels, const TensorView& loss) const;
  /// Of the weights, of the last run().
  const PerParameter<Tensor>& gradients() const { return gradients_; }

 private:
  /// A layer's two gradients; the first layer's input has none.
  struct LayerPlans {
    ConvPlan weights;
    ConvTensors weights_tensors;
    std::optional<ConvPlan> data;
    ConvTensors data_tensors;
  };
  using BatchPlans = std::vector<LayerPlans>;
  /// The gradients of a batch's activations.
  struct Views {
    TensorView conv1, pool1, conv2, pool2, hidden, logits;
  };
  Views views(std::int64_t n) const;
  BatchPlans plans(std::int64_t n, const Planner& planner) const;

  const Network& network_;
  PerParameter<Tensor> gradients_;
  /// Of the activations: as large as the largest of them each. A pooling of one element has the
  /// memory of its convolution.
  Tensor dconv1_, dpool1_, dconv2_, dpool2_, dhidden_, dlogits_;
  std::map<std::int64_t, BatchPlans> plans_;  ///< by N
};

}  // namespace plumb::app
