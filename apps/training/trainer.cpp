// Trains the network on a device.
#include "training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <set>

#include "stopwatch.hpp"

namespace plumb::app {
namespace {

/// The sizes of batches into which `images` are cut.
void add_batches(std::set<std::int64_t>& sizes, std::int64_t images, std::int64_t batch) {
  if (images >= batch) sizes.insert(batch);
  if (images % batch > 0) sizes.insert(images % batch);
}

std::vector<std::int64_t> batch_sizes(const Dataset& training, const Dataset& test,
                                      std::int64_t batch) {
  std::set<std::int64_t> sizes;
  add_batches(sizes, training.images.count, batch);
  add_batches(sizes, test.images.count, batch);
  return {sizes.begin(), sizes.end()};
}

[[noreturn]] void fail(double value, const char* what, std::int64_t epoch, std::int64_t images,
                       const TrainingOptions& options) {
  throw TrainingFailure(fmt::format(
      "{} is {} after {} images of epoch {}: a smaller learning rate than {} is needed", what,
      std::isnan(value) ? std::abs(value) : value, images, epoch, options.learning_rate));
}

/// Results of batches, summed.
struct Sums {
  double loss = 0;
  std::int64_t images = 0, correct = 0;

  double mean_loss() const { return loss / static_cast<double>(images); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
};

/// The means of weights, in double: the same on every host.
class Average {
 public:
  void add(const PerParameter<std::vector<double>>& weights) {
    for (int i = 0; i < parameter_count; ++i) {
      sums_[i].resize(weights[i].size());
      std::transform(weights[i].begin(), weights[i].end(), sums_[i].begin(), sums_[i].begin(),
                     std::plus());
    }
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  PerParameter<std::vector<float>> means() const {
    PerParameter<std::vector<float>> means;
    for (int i = 0; i < parameter_count; ++i)
      for (const double sum : sums_[i])
        means[i].push_back(static_cast<float>(sum / static_cast<double>(count_)));
    return means;
  }

 private:
  PerParameter<std::vector<double>> sums_;
  std::int64_t count_ = 0;
};

/// A run over a device: one epoch after another.
class Run {
 public:
  Run(const Device& device, const Dataset& training, const Dataset& test,
      const TrainingOptions& options)
      : training_(training),
        test_(test),
        options_(options),
        steps_(device, shape_for(training), batch_sizes(training, test, options.batch)) {}

  Steps& steps() { return steps_; }

  /// Whether `progress` let it come to its end. The last epoch leaves the means of its weights, if
  /// the options say so.
  bool train_epoch(std::int64_t epoch, std::span<const std::uint32_t> order, EpochFigures& figures,
                   const std::function<bool(std::int64_t, std::int64_t)>& progress) {
    const auto count = static_cast<std::int64_t>(order.size());
    const double in_all = static_cast<double>(options_.epochs) * static_cast<double>(count);
    const double before = static_cast<double>(epoch - 1) * static_cast<double>(count);
    const bool averages = options_.average && epoch == options_.epochs;
    const std::int64_t steps = (count + options_.batch - 1) / options_.batch;
    Average average;
    Sums sums;
    const auto add = [&](const BatchResult& result) {
      add_finite(sums, result, "the loss", epoch, sums.images);
    };
    for (std::int64_t first = 0; first < count; first += options_.batch) {
      const std::int64_t n = std::min(options_.batch, count - first);
      steps_.submit(training_, part(order, first, n),
                    sgd_options(options_, (before + static_cast<double>(first)) / in_all), add);
      if (averages && is_averaged(first / options_.batch, steps)) average.add(steps_.weights());
      if (!progress(epoch, first + n)) return false;
    }
    steps_.finish(add);
    if (!average.empty()) steps_.set_weights(average.means());
    figures.loss = sums.mean_loss();
    figures.train_accuracy = sums.accuracy();
    return true;
  }

  void test_epoch(std::int64_t epoch, EpochFigures& figures) {
    std::vector<std::uint32_t> all(static_cast<std::size_t>(test_.images.count));
    std::iota(all.begin(), all.end(), 0u);
    Sums sums;
    const auto add = [&](const BatchResult& result) {
      add_finite(sums, result, "on test images the loss", epoch, training_.images.count);
    };
    for (std::int64_t first = 0; first < test_.images.count; first += options_.batch)
      steps_.submit(test_, part(all, first, std::min(options_.batch, test_.images.count - first)),
                    {}, add);
    steps_.finish(add);
    figures.test_loss = sums.mean_loss();
    figures.test_accuracy = sums.accuracy();
  }

  /// A loss is that of the weights before its step, and says nothing of the last one's.
  TrainingState finite_state(std::int64_t epoch) {
    TrainingState state = steps_.download();
    for (const std::vector<float>& values : state.weights)
      for (const float value : values)
        if (!std::isfinite(value))
          fail(static_cast<double>(value), "a weight", epoch, training_.images.count, options_);
    return state;
  }

 private:
  static std::span<const std::uint32_t> part(std::span<const std::uint32_t> order,
                                             std::int64_t first, std::int64_t count) {
    return order.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }

  /// `learned` are the epoch's training images so far, for the message.
  void add_finite(Sums& sums, const BatchResult& result, const char* what, std::int64_t epoch,
                  std::int64_t learned) const {
    if (!std::isfinite(result.loss)) fail(result.loss, what, epoch, learned, options_);
    sums.loss += result.loss * static_cast<double>(result.images);
    sums.images += result.images;
    sums.correct += result.correct;
  }

  const Dataset& training_;
  const Dataset& test_;
  const TrainingOptions& options_;
  Steps steps_;
};

}  // namespace

TrainingState initial_state(const NetworkShape& shape, std::uint64_t seed) {
  Random random(seed);
  const PerParameter<Extents> extents = parameter_extents(shape);
  TrainingState state;
  for (int i = 0; i < parameter_count; ++i) {
    const std::int64_t count = element_count(extents[i]);
    state.weights[i].assign(static_cast<std::size_t>(count), 0.0f);
    state.velocity[i] = state.weights[i];
    if (extents[i].rank() == 1) continue;  // a bias
    const double fan_in = static_cast<double>(count / extents[i][0]);
    for (float& value : state.weights[i])
      value = static_cast<float>(random.normal() * std::sqrt(2 / fan_in));
  }
  return state;
}

std::vector<std::uint32_t> Order::next() {
  std::vector<std::uint32_t> order = random_.permutation(static_cast<std::uint32_t>(images_));
  if (mirrors_)
    for (std::uint32_t& image : order)
      if (random_.below(2) == 1) image |= mirrored_image;
  return order;
}

SgdOptions sgd_options(const TrainingOptions& options, double done) {
  const double warm = options.warmup / static_cast<double>(options.epochs);
  const double rising = done < warm ? done / warm : 1;
  const double falling = (1 + std::cos(std::numbers::pi * done)) / 2;
  const double left = options.final_rate + (1 - options.final_rate) * falling;
  return {.learning_rate = options.learning_rate * rising * left,
          .momentum = options.momentum,
          .weight_decay = options.weight_decay,
          .nesterov = options.momentum > 0};
}

bool is_averaged(std::int64_t step, std::int64_t steps) {
  constexpr std::int64_t most = 30;
  return (step + 1) * most / steps > step * most / steps;
}

NetworkShape shape_for(const Dataset& dataset) {
  NetworkShape shape;
  shape.image_height = dataset.images.height;
  shape.image_width = dataset.images.width;
  return shape;
}

bool train(const Device& device, const Dataset& training, const Dataset& test,
           const TrainingOptions& options, Checkpoint checkpoint,
           const std::function<void(const Checkpoint&)>& on_epoch,
           const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  Run run(device, training, test, options);
  run.steps().upload(checkpoint.state);
  Order order(options, training.images.count);
  for (std::size_t i = 0; i < checkpoint.epochs.size(); ++i) order.next();
  for (auto epoch = static_cast<std::int64_t>(checkpoint.epochs.size()) + 1;
       epoch <= options.epochs; ++epoch) {
    Stopwatch stopwatch;
    EpochFigures figures{.epoch = epoch};
    if (!run.train_epoch(epoch, order.next(), figures, progress)) return false;
    checkpoint.state = run.finite_state(epoch);
    run.test_epoch(epoch, figures);
    figures.seconds = stopwatch.total();
    checkpoint.epochs.push_back(figures);
    on_epoch(checkpoint);
  }
  return true;
}

}  // namespace plumb::app
