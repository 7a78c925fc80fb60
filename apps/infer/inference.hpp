// A network on one device, ready for batches of one size.
#pragma once

#include <functional>
#include <vector>

#include "infer/weights.hpp"

namespace plumb::app {

/// How values are stored, and how accurately they are multiplied.
struct Precision {
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  Math math = Math::fp32;
};

/// Buffers, plans and packed filters. One queue at a time may run it.
class Inference {
 public:
  Inference(Queue& queue, const Graph& graph, const Weights& weights, std::int64_t batch,
            const Precision& precision);

  std::int64_t batch() const { return batch_; }
  /// Copies images, [batch, C, H, W] dense, to the device; waits.
  void upload(Queue& queue, const std::vector<float>& images);
  /// Puts all steps on the queue. `step_queued` is called after each.
  void forward(
      Queue& queue, const std::function<void()>& step_queued = [] {}) const;
  /// [batch, classes], once the queue has passed the last forward().
  std::vector<float> logits(Queue& queue) const;

  /// What runs a step: an algorithm's name, or the operator's.
  std::string_view runs(std::size_t step) const;

 private:
  struct Layer {
    std::vector<ConvPlan> plan;  ///< one of a convolution, none of a pooling
    PackedFilters filters;
    Tensor bias;
    TensorView x, y;
  };
  /// Of a buffer, as one step sees it.
  TensorView view(int buffer, const Extents& image) const;

  const Graph& graph_;
  std::int64_t batch_;
  Precision precision_;
  std::vector<Tensor> buffers_;
  std::vector<Layer> layers_;
};

}  // namespace plumb::app
