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
  Tensor x, y;
};

std::vector<Buffers> buffers_of(const Device& device, const ConvProblem& segment, int count) {
  std::vector<Buffers> buffers;
  for (int i = 0; i < count; ++i)
    buffers.push_back({.x = Tensor(device, segment.dtype, segment.x_extents(), segment.x_strides),
                       .y = Tensor(device, segment.dtype, segment.y_extents(), segment.y_strides)});
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
  const Tensor w(device, plan.problem().dtype, plan.problem().w_extents(),
                 plan.problem().w_strides);
  copy(queue, tensors.w, w);
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
  StageSeconds seconds;
  seconds.copy_in = time([&](std::int64_t segment, const Buffers& to) {
    copy(queue, slice(tensors.x, 0, segment * images, images), to.x);
  });
  seconds.kernel = time([&](std::int64_t, const Buffers& at) {
    plan.execute(queue, {.x = at.x, .w = w, .y = at.y.view()});
  });
  seconds.copy_out = time([&](std::int64_t segment, const Buffers& from) {
    copy(queue, from.y, slice(tensors.y, 0, segment * images, images));
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
