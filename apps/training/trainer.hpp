// Trains the network on a device: gradient descent with momentum on shuffled batches, a falling
// learning rate, and weights averaged over the last epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "dataset.hpp"
#include "model.hpp"
#include "training/random.hpp"
#include "training/steps.hpp"

namespace plumb::app {

struct TrainingOptions {
  std::int64_t epochs = 8;
  std::int64_t batch = 100;
  double learning_rate = 0.04;  ///< at the start
  double final_rate = 0.5;      ///< the share of it that is left at the end of half a cosine
  double momentum = 0.9;        ///< Nesterov's, where it is above 0
  double weight_decay = 5e-4;
  double warmup = 0;    ///< epochs over which the learning rate rises from zero, in a line
  bool mirror = false;  ///< each image is seen mirrored in half of the epochs, as the seed draws
  bool average = true;  ///< what is left are the means of the weights over the last epoch
  std::uint64_t seed = 1;
  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// Calls f(name, member) for each option. Names are those of files; an option of the program has
/// dashes for their underscores.
template <class F>
void for_each_option(const F& f) {
  f("epochs", &TrainingOptions::epochs);
  f("batch", &TrainingOptions::batch);
  f("seed", &TrainingOptions::seed);
  f("learning_rate", &TrainingOptions::learning_rate);
  f("final_rate", &TrainingOptions::final_rate);
  f("momentum", &TrainingOptions::momentum);
  f("weight_decay", &TrainingOptions::weight_decay);
  f("warmup", &TrainingOptions::warmup);
  f("mirror", &TrainingOptions::mirror);
  f("average", &TrainingOptions::average);
}

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
  double test_loss = 0;       ///< of the test set, after the epoch
  double test_accuracy = 0;   ///< of the same
  double seconds = 0;         ///< with the test
};

/// A training run after whole epochs: all that a run needs to go on.
struct Checkpoint {
  TrainingState state;
  std::vector<EpochFigures> epochs;  ///< those done, in order
};

/// Weights drawn from the seed alone: normal with variance 2 / fan-in (He et al. 2015), biases
/// zero; velocities zero.
TrainingState initial_state(const NetworkShape& shape, std::uint64_t seed);

/// The order of the images, epoch by epoch, that follows from the options alone.
class Order {
 public:
  Order(const TrainingOptions& options, std::int64_t images)
      : random_(options.seed + 1), images_(images), mirrors_(options.mirror) {}
  /// Of the next epoch; with `mirrored_image` those that are seen mirrored.
  std::vector<std::uint32_t> next();

 private:
  Random random_;  // not that of the weights: the order does not depend on their number
  std::int64_t images_;
  bool mirrors_;
};

/// The step's options with `done`, from 0 to 1, of the training behind it.
SgdOptions sgd_options(const TrainingOptions& options, double done);

/// Whether the weights after step `step` of `steps`, from 0, of the last epoch are among those that
/// are averaged: up to 30, evenly apart, the last one among them.
bool is_averaged(std::int64_t step, std::int64_t steps);

/// The network's shape for images of this size.
NetworkShape shape_for(const Dataset& dataset);

/// Trains from a checkpoint to options.epochs; the test set decides nothing. The same options, data
/// and checkpoint on the same kind of device give the same bits, whatever the number of threads.
/// `on_epoch` is called after each epoch with the checkpoint that it left, `progress` after each
/// batch with the images done in the epoch. Where that returns false, training ends there; returns
/// whether it went on to the end. TrainingFailure where a loss or a weight is no finite number:
/// of a loss a few steps after it.
bool train(const Device& device, const Dataset& training, const Dataset& test,
           const TrainingOptions& options, Checkpoint checkpoint,
           const std::function<void(const Checkpoint&)>& on_epoch,
           const std::function<bool(std::int64_t epoch, std::int64_t done)>& progress);

}  // namespace plumb::app
