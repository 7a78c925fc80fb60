// Trains the network on the CPU: Adam on shuffled batches, the learning rate falling to zero.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>

#include "dataset.hpp"
#include "model.hpp"

namespace plumb::app {

struct TrainingOptions {
  std::int64_t epochs = 10;
  std::int64_t batch = 100;
  double learning_rate = 0.002;  ///< at the start; falls to zero along half a cosine
  std::uint64_t seed = 1;
};

/// Training that has diverged: there are no weights to keep.
class TrainingFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What one epoch gave.
struct EpochFigures {
  std::int64_t epoch = 0;  ///< from 1
  double loss = 0;         ///< mean cross-entropy of its batches, each before it was learned from
  double train_accuracy = 0;  ///< of the same
  double test_accuracy = 0;   ///< of the test set, after the epoch
  double seconds = 0;         ///< with the test
};

/// Weights drawn from the seed alone: normal with variance 2 / fan-in (He et al. 2015), biases
/// zero.
Model initial_model(const NetworkShape& shape, std::uint64_t seed);

/// Trains from initial_model(); the test set decides nothing. The same options, data and number of
/// threads on the same machine give the same bits. `on_epoch` is called after each epoch with the
/// weights that it left, `progress` after each batch with the images done in the epoch. Where that
/// returns false, training ends there; returns whether it went on to the end. TrainingFailure where
/// the loss, a weight or an output for the test set is no finite number, as soon as it is none.
bool train(const Dataset& training, const Dataset& test, const TrainingOptions& options,
           const std::function<void(const EpochFigures&, Model)>& on_epoch,
           const std::function<bool(std::int64_t epoch, std::int64_t done)>& progress);

}  // namespace plumb::app
