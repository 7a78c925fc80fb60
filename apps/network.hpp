// The program's network, a LeNet-5 relative: grey images, resized -> conv, ReLU -> max-pool ->
// conv, ReLU -> max-pool -> linear, ReLU -> linear -> softmax. On any device, batch by batch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

/// The sizes of the network. The defaults are those of the program; tests use smaller ones.
struct NetworkShape {
  std::int64_t image_height = 28, image_width = 28;  ///< of the images as they come
  std::int64_t resized = 86;                         ///< height and width that conv1 sees
  std::int64_t conv1_channels = 4, conv2_channels = 16;
  std::int64_t filter = 7;  ///< height and width, both convolutions
  std::int64_t pool1 = 2, pool2 = 4;
  std::int64_t hidden = 32, classes = 10;
};

enum Parameter {
  conv1_weight,
  conv1_bias,
  conv2_weight,
  conv2_bias,
  linear1_weight,
  linear1_bias,
  linear2_weight,
  linear2_bias,
  parameter_count,
};
/// What stands for each Parameter: an extents, a tensor, a vector of values.
template <class T>
using PerParameter = std::array<T, parameter_count>;
/// As in the weights file.
extern const PerParameter<std::string_view> parameter_names;
PerParameter<Extents> parameter_extents(const NetworkShape& shape);

/// What the activations are wanted for. Inference lets a convolution pool what it puts out, as far
/// as 2x2 goes, so that it is never stored whole; the gradients of training need it whole.
enum class Purpose { inference, training };

/// One step of forward(): its short name, as in the JSON, and what it does, for people: "4 filters
/// 7x7, ReLU".
struct Layer {
  std::string_view name;
  std::string description;
};
/// In the order in which they run.
std::vector<Layer> layers_of(const NetworkShape& shape, Purpose purpose);

/// What each layer puts out for a batch of N images: dense, on the network's device.
template <class View>
struct Activations {
  View resized;        ///< [N, 1, resized, resized]
  View conv1;          ///< [N, conv1_channels, ., .], after ReLU and what the convolution pools
  View pool1;          ///< [N, conv1_channels, ., .], the same memory where that is all
  View conv2;          ///< [N, conv2_channels, ., .], after ReLU and what the convolution pools
  View pool2;          ///< [N, conv2_channels, ., .], the same memory where that is all
  View hidden;         ///< [N, hidden], after ReLU
  View logits;         ///< [N, classes]
  View probabilities;  ///< [N, classes]
};
Activations<Extents> activation_extents(const NetworkShape& shape, std::int64_t n, Purpose purpose);
PoolGeometry max_pool_geometry(std::int64_t window);

/// A layer with weights on one batch, as a convolution. A linear one is a convolution of images of
/// one pixel.
struct WeightedLayer {
  ConvTensors tensors;
  ConvGeometry geometry;
  ConvOptions options;
};
inline constexpr std::size_t weighted_count = 4;
/// In the order in which they run.
using WeightedLayers = std::array<WeightedLayer, weighted_count>;

/// Makes the plan of a convolution, with the caller's own demands added to these options.
using Planner = std::function<ConvPlan(const ConvProblem&, ConvOptions)>;

/// Weights and activations on one device, allocated once for the largest batch. One queue at a
/// time may run it.
class Network {
 public:
  /// Weights are not set. Error where the shape leaves nothing of an image, or memory runs out.
  Network(const Device& device, const NetworkShape& shape, std::int64_t max_batch, Purpose purpose,
          DType dtype = DType::f32);

  const NetworkShape& shape() const { return shape_; }
  Purpose purpose() const { return purpose_; }
  DType dtype() const { return parameters_[0].dtype(); }
  const PerParameter<Tensor>& parameters() const { return parameters_; }
  /// Where forward() leaves the results of a batch of n.
  Activations<TensorView> activations(std::int64_t n) const;
  /// The layers with weights on a batch of n, from the first to the last.
  WeightedLayers weighted_layers(std::int64_t n) const;

  /// Plans the layers for batches of these sizes once, for weights that change: forward() takes the
  /// plans from then on.
  void plan(std::span<const std::int64_t> batches, const Planner& planner);
  /// Packs the weights as they are now, for batches of these sizes: forward() takes them so from
  /// then on. For inference, where weights do not change any more.
  void pack_filters(Queue& queue, std::span<const std::int64_t> batches);

  /// Puts a batch through all layers: images [N, 1, image_height, image_width], N no more than
  /// max_batch. `layer_queued` is called after each of layers_of() has been put on the queue.
  void forward(
      Queue& queue, const ConstTensorView& images,
      const std::function<void()>& layer_queued = [] {}) const;

 private:
  struct Planned {
    ConvPlan plan;
    PackedFilters filters;  ///< empty: the weights as they are
  };

  NetworkShape shape_;
  Purpose purpose_;
  PerParameter<Tensor> parameters_;
  Activations<Tensor> activations_;
  std::map<std::int64_t, std::vector<Planned>> planned_;  ///< by N, a layer after the other
};

}  // namespace plumb::app
