// The gradient of the network's loss by all of its weights.
#pragma once

#include <cstdint>
#include <span>

#include "network.hpp"

namespace plumb::app {

/// What went into and came out of one batch.
struct BatchResult {
  double loss = 0;           ///< the mean cross-entropy
  std::int64_t correct = 0;  ///< images whose largest logit is the label's
};

/// Gradients of a network's weights and activations, on the CPU, allocated once.
class Backward {
 public:
  /// `network` must outlive it. Error (unsupported) where the device is not the CPU.
  Backward(const Device& device, const Network& network, std::int64_t max_batch);

  /// One batch forward and backward: afterwards gradients() are those of its mean loss.
  BatchResult run(Queue& queue, const ConstTensorView& images,
                  std::span<const std::uint8_t> labels);
  const PerParameter<Tensor>& gradients() const { return gradients_; }

 private:
  const Network& network_;
  PerParameter<Tensor> gradients_;
  /// Of the activations: as large as the largest of them each.
  Tensor dconv1_, dpool1_, dconv2_, dpool2_, dhidden_, dlogits_;
};

}  // namespace plumb::app
