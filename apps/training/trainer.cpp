// Trains the network on the CPU.
#include "training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "predict.hpp"
#include "stopwatch.hpp"
#include "training/backward.hpp"
#include "training/random.hpp"

namespace plumb::app {
namespace {

constexpr std::int64_t test_batch = 500;

/// Adam (Kingma & Ba 2015, algorithm 1, with its proposed constants).
class Adam {
 public:
  explicit Adam(const PerParameter<Tensor>& parameters) {
    for (int i = 0; i < parameter_count; ++i) {
      const auto count = static_cast<std::size_t>(element_count(parameters[i].extents()));
      mean_[i].assign(count, 0.0f);
      square_[i].assign(count, 0.0f);
    }
  }

  void step(const PerParameter<Tensor>& parameters, const PerParameter<Tensor>& gradients,
            double learning_rate) {
    ++steps_;
    const double bias1 = 1 - std::pow(beta1, steps_), bias2 = 1 - std::pow(beta2, steps_);
    const auto rate = static_cast<float>(learning_rate * std::sqrt(bias2) / bias1);
    for (int i = 0; i < parameter_count; ++i) {
      auto* value = parameters[i].data_as<float>();
      const auto* gradient = gradients[i].data_as<const float>();
      for (std::size_t j = 0; j < mean_[i].size(); ++j) {
        float &m = mean_[i][j], &v = square_[i][j];
        m = beta1 * m + (1 - beta1) * gradient[j];
        v = beta2 * v + (1 - beta2) * gradient[j] * gradient[j];
        value[j] -= rate * m / (std::sqrt(v) + epsilon);
      }
    }
  }

 private:
  static constexpr float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  PerParameter<std::vector<float>> mean_, square_;
  int steps_ = 0;
};

/// Copies the images that `order` names, as floats from 0 to 1, and their labels.
void gather(const Dataset& dataset, std::span<const std::uint32_t> order, const Tensor& images,
            Bytes& labels) {
  const auto pixels = static_cast<std::size_t>(dataset.images.height * dataset.images.width);
  auto* to = images.data_as<float>();
  labels.clear();
  for (const std::uint32_t index : order) {
    const std::uint8_t* from = dataset.images.pixels.data() + index * pixels;
    to = std::transform(from, from + pixels, to,
                        [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
    labels.push_back(dataset.labels[index]);
  }
}

Model download(const Network& network) {
  Model model;
  for (int i = 0; i < parameter_count; ++i) {
    const auto* values = network.parameters()[i].data_as<const float>();
    model.values[i].assign(values, values + element_count(network.parameters()[i].extents()));
  }
  return model;
}

/// NaN where an output is no finite number.
double accuracy(const Device& device, const Model& model, const NetworkShape& shape,
                const Dataset& dataset) {
  const Predictions predictions = predict(device, model, shape, dataset.images, test_batch);
  if (!std::all_of(predictions.logits.begin(), predictions.logits.end(),
                   [](float logit) { return std::isfinite(logit); }))
    return std::numeric_limits<double>::quiet_NaN();
  const auto correct =
      std::inner_product(dataset.labels.begin(), dataset.labels.end(), predictions.classes.begin(),
                         std::int64_t{0}, std::plus<>(), std::equal_to<>());
  return static_cast<double>(correct) / static_cast<double>(dataset.labels.size());
}

void require_finite(double value, const char* what, std::int64_t epoch, std::int64_t images,
                    const TrainingOptions& options) {
  if (std::isfinite(value)) return;
  throw TrainingFailure(
      fmt::format("{} is {} after {} images of epoch {}: a smaller learning rate than {} is needed",
                  what, value, images, epoch + 1, options.learning_rate));
}

}  // namespace

Model initial_model(const NetworkShape& shape, std::uint64_t seed) {
  Random random(seed);
  const PerParameter<Extents> extents = parameter_extents(shape);
  Model model;
  for (int i = 0; i < parameter_count; ++i) {
    const std::int64_t count = element_count(extents[i]);
    model.values[i].assign(static_cast<std::size_t>(count), 0.0f);
    if (extents[i].rank() == 1) continue;  // a bias
    const double fan_in = static_cast<double>(count / extents[i][0]);
    for (float& value : model.values[i])
      value = static_cast<float>(random.normal() * std::sqrt(2 / fan_in));
  }
  return model;
}

bool train(const Dataset& training, const Dataset& test, const TrainingOptions& options,
           const std::function<void(const EpochFigures&, Model)>& on_epoch,
           const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  NetworkShape shape;
  shape.image_height = training.images.height;
  shape.image_width = training.images.width;
  const std::int64_t count = training.images.count;
  const std::int64_t batch = std::min(options.batch, count);

  const Device device = Device::open("cpu");
  Queue queue(device);
  const Network network(device, shape, batch, Purpose::training);
  upload(queue, initial_model(shape, options.seed), network);
  Backward backward(device, network, batch);
  Adam adam(network.parameters());
  // A stream of its own: the order of the batches does not depend on the number of weights.
  Random random(options.seed + 1);
  const Tensor images(device, DType::f32, {batch, 1, shape.image_height, shape.image_width});
  Bytes labels;
  const double images_in_all = static_cast<double>(options.epochs) * static_cast<double>(count);

  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    Stopwatch stopwatch;
    const std::vector<std::uint32_t> order = random.permutation(static_cast<std::uint32_t>(count));
    double loss = 0;
    std::int64_t correct = 0;
    for (std::int64_t first = 0; first < count; first += batch) {
      const std::int64_t n = std::min(batch, count - first);
      gather(training,
             std::span(order).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)),
             images, labels);
      const BatchResult result = backward.run(queue, slice(images.view(), 0, 0, n), labels);
      require_finite(result.loss, "the loss", epoch, first, options);
      loss += result.loss * static_cast<double>(n);
      correct += result.correct;
      const double done =
          (static_cast<double>(epoch) * static_cast<double>(count) + static_cast<double>(first)) /
          images_in_all;
      adam.step(network.parameters(), backward.gradients(),
                options.learning_rate * (1 + std::cos(std::numbers::pi * done)) / 2);
      if (!progress(epoch + 1, first + n)) return false;
    }
    // A loss is that of the weights before its step, and says nothing of the last one's.
    for (const Tensor& parameter : network.parameters()) {
      const auto* values = parameter.data_as<const float>();
      const auto* end = values + element_count(parameter.extents());
      const auto* wrong = std::find_if_not(values, end, [](float v) { return std::isfinite(v); });
      if (wrong != end)
        require_finite(static_cast<double>(*wrong), "a weight", epoch, count, options);
    }
    const double total = static_cast<double>(count);
    Model model = download(network);
    const double tested = accuracy(device, model, shape, test);
    require_finite(tested, "on test images the loss", epoch, count, options);
    on_epoch(
        {epoch + 1, loss / total, static_cast<double>(correct) / total, tested, stopwatch.total()},
        std::move(model));
  }
  return true;
}

}  // namespace plumb::app
