// Steps of training on one device. The host prepares batches in pinned memory while the device
// works on earlier ones: nothing waits for a step but the reuse of its staging memory, a few steps
// later.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "dataset.hpp"
#include "training/backward.hpp"

namespace plumb::app {

/// What came out of one batch, with the weights before its step.
struct BatchResult {
  std::int64_t images = 0;
  double loss = 0;           ///< the mean cross-entropy
  std::int64_t correct = 0;  ///< images whose largest logit is the label's
};

/// What a training run carries from step to step.
struct TrainingState {
  PerParameter<std::vector<float>> weights, velocity;  ///< as Model::values
};

/// Added to an image's number: it is seen mirrored, the columns in reverse.
inline constexpr std::uint32_t mirrored_image = std::uint32_t{1} << 31;

/// The network, its gradients and the velocity of its weights on one device. Every plan is one
/// whose bits are specified (ConvOptions::reproducible), so that the number of threads and the
/// instruction set have no say; on CUDA, and where a device has no such algorithm, one that is
/// deterministic.
class Steps {
 public:
  /// For batches of these sizes. Velocities are zero, weights are not set.
  Steps(const Device& device, const NetworkShape& shape, std::span<const std::int64_t> batches,
        DType dtype = DType::f32);
  ~Steps();
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  /// Puts the images that `indices` name, with `mirrored_image` where they are seen so, through the
  /// network: forward alone or, with `sgd`, with their gradients and a step. Their number is one of
  /// the sizes given. `on_result` gets the results of a batch a few before.
  void submit(const Dataset& dataset, std::span<const std::uint32_t> indices,
              const std::optional<SgdOptions>& sgd,
              const std::function<void(const BatchResult&)>& on_result);
  /// Waits for all batches.
  void finish(const std::function<void(const BatchResult&)>& on_result);

  void upload(const TrainingState& state);
  TrainingState download();
  /// The weights as they are stored, f64 where the network is.
  PerParameter<std::vector<double>> weights();
  void set_weights(const PerParameter<std::vector<float>>& weights);

 private:
  /// A batch in flight: pinned host memory on both ends.
  struct Stage {
    Tensor pixels, labels;  ///< [max_batch, 1, H, W]; [max_batch] integers of eight bytes
    Tensor logits, loss;    ///< [max_batch, classes]; [1], f64
    std::vector<std::int64_t> expected;
    std::optional<Event> done;
  };
  void collect(Stage& stage, const std::function<void(const BatchResult&)>& on_result) const;
  void step(const SgdOptions& sgd);

  Queue queue_;
  Network network_;
  Backward backward_;
  PerParameter<Tensor> velocity_;
  Tensor images_, labels_, loss_;
  std::array<Stage, 4> stages_;
  std::size_t next_ = 0;
};

}  // namespace plumb::app
