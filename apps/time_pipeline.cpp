// Timing of pipelines.
#include "time_pipeline.hpp"

#include <algorithm>

#include "stopwatch.hpp"

namespace plumb::app {
namespace {

constexpr int min_samples = 5, max_samples = 30;
constexpr double seconds_limit = 1;

/// The median of what `sample` returns, called as often as time allows.
template <class Sample>
double median_of(const Sample& sample) {
  std::vector<double> seconds;
  const Stopwatch stopwatch;
  while (static_cast<int>(seconds.size()) < min_samples ||
         (static_cast<int>(seconds.size()) < max_samples && stopwatch.total() < seconds_limit))
    seconds.push_back(sample());
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
}

/// Buffers on the device that whole segments go round, so that a kernel does not find its tensors
/// in a cache that it would not find them in when the pipeline runs.
struct Buffers {
  Tensor image, filters, output;
};

bool sums(const ConvProblem& problem) { return problem.direction == Direction::backward_weights; }

/// What has no N is there once: filters, or the weights' gradient.
std::vector<Buffers> buffers_of(const Device& device, const ConvProblem& segment, int count) {
  const auto tensor = [&](const ConvOperand& part) {
    return Tensor(device, segment.dtype, part.extents, part.strides);
  };
  std::vector<Buffers> buffers;
  for (int i = 0; i < count; ++i)
    buffers.push_back(
        {.image = tensor(image_of(segment)),
         .filters = i == 0 || sums(segment) ? tensor(filters_of(segment)) : buffers[0].filters,
         .output = i == 0 || !sums(segment) ? tensor(output_of(segment)) : buffers[0].output});
  return buffers;
}

}  // namespace

StageSeconds time_stages(const Device& device, const ConvPipeline& pipeline, const HostCase& host) {
  const ConvPlan& plan = pipeline.plan();
  const ConvTensors tensors = host.tensors();
  const std::int64_t batch = pipeline.problem().n, images = pipeline.images_per_segment();
  if (batch == 0) return {};
  Queue queue(device);
  if (device.id() == plumb::host)
    return {.copy_in = 0,
            .kernel = median_of([&] {
              const Event begin = queue.record();
              plan.execute(queue, tensors);
              return seconds_between(begin, queue.record());
            }),
            .copy_out = 0};

  const auto buffers = buffers_of(device, plan.problem(), pipeline.streams());
  const bool weights = sums(plan.problem());
  if (!weights) copy(queue, tensors.w, buffers[0].filters);
  const std::int64_t segments = batch / images;
  // What is left over by whole segments is as fast as they are.
  const double scale = static_cast<double>(batch) / static_cast<double>(segments * images);
  const auto time = [&](const auto& work) {
    return scale * median_of([&] {
             const Event begin = queue.record();
             for (std::int64_t segment = 0; segment < segments; ++segment)
               work(segment, buffers[static_cast<std::size_t>(segment) % buffers.size()]);
             return seconds_between(begin, queue.record());
           });
  };
  const auto part = [&](const auto& view, std::int64_t segment) {
    return slice(view, 0, segment * images, images);
  };
  StageSeconds seconds;
  seconds.copy_in = time([&](std::int64_t segment, const Buffers& to) {
    copy(queue, part(tensors.x, segment), to.image);
    if (weights) copy(queue, part(tensors.w, segment), to.filters);
  });
  seconds.kernel = time([&](std::int64_t, const Buffers& at) {
    plan.execute(queue, {.x = at.image, .w = at.filters, .y = at.output.view()});
  });
  seconds.copy_out = time([&](std::int64_t segment, const Buffers& from) {
    if (!weights) copy(queue, from.output, part(tensors.y, segment));
    if (weights && segment == 0) copy(queue, from.output, tensors.y);
  });
  return seconds;
}

double time_pipeline(ConvPipeline& pipeline, const HostCase& host) {
  pipeline.run(host.tensors());
  return median_of([&] {
    const Stopwatch stopwatch;
    pipeline.run(host.tensors());
    return stopwatch.total();
  });
}

}  // namespace plumb::app
