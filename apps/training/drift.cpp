// How far two devices drift apart.
#include "training/drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plumb::app {

double relative_difference(double a, double b) {
  if (a == b) return 0;
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

double largest_relative_difference(const PerParameter<std::vector<double>>& a,
                                   const PerParameter<std::vector<double>>& b) {
  double difference = 0, scale = 0;
  for (std::size_t p = 0; p < a.size(); ++p)
    for (std::size_t i = 0; i < a[p].size(); ++i) {
      const double one = std::abs(a[p][i] - b[p][i]);
      if (std::isnan(one)) return one;
      difference = std::max(difference, one);
      scale = std::max(scale, std::abs(a[p][i]));
    }
  return difference == 0 ? 0 : difference / scale;
}

std::vector<DriftStep> drift(const DriftSide& a, const DriftSide& b, const Dataset& training,
                             const TrainingOptions& options, std::int64_t steps,
                             const std::function<bool(std::int64_t)>& progress) {
  const NetworkShape shape = shape_for(training);
  const std::int64_t count = training.images.count, batch = std::min(options.batch, count);
  // Whole batches alone: what is left of the images is left out.
  const std::vector<std::int64_t> sizes{batch};
  const TrainingState initial = initial_state(shape, options.seed);
  Steps steps_a(a.device, shape, sizes, a.dtype), steps_b(b.device, shape, sizes, b.dtype);
  steps_a.upload(initial);
  steps_b.upload(initial);

  const std::int64_t in_epoch = count / batch;
  Order order(options, count);
  std::vector<std::uint32_t> indices;
  std::vector<DriftStep> result;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (i % in_epoch == 0) indices = order.next();
    const auto images = std::span(indices).subspan(static_cast<std::size_t>(i % in_epoch * batch),
                                                   static_cast<std::size_t>(batch));
    const double done =
        std::min(1.0, static_cast<double>(i * batch) /
                          (static_cast<double>(options.epochs) * static_cast<double>(count)));
    DriftStep step{.step = i + 1};
    const auto take = [&](Steps& side, double& loss) {
      const auto keep = [&](const BatchResult& batch_result) { loss = batch_result.loss; };
      side.submit(training, images, sgd_options(options, done), keep);
      side.finish(keep);
      if (!std::isfinite(loss))
        throw TrainingFailure(
            fmt::format("the loss is {} in step {}: a smaller learning rate than {} is needed",
                        loss, i + 1, options.learning_rate));
    };
    take(steps_a, step.loss_a);
    take(steps_b, step.loss_b);
    step.loss_difference = relative_difference(step.loss_a, step.loss_b);
    step.weights_difference = largest_relative_difference(steps_a.weights(), steps_b.weights());
    result.push_back(step);
    if (!progress(i + 1)) break;
  }
  return result;
}

}  // namespace plumb::app
