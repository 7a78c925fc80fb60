// Sizes of segments.
//
// A pipeline takes as long as its slowest stage takes for the whole batch, and to that come the
// other stages of one segment (filling and draining the pipeline) and a fixed cost of every segment
// (launches, events, the start of a copy). With B bytes in all through the slowest copy, segments
// of b bytes and a fixed cost worth c bytes, that is B + b + B/b c, which is least at b = sqrt(B
// c).
#include "pipeline_segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "partial_sums.hpp"
#include "plumb/error.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

/// What a segment's fixed cost of about 5 us is worth on a link of some 50 GB/s.
constexpr double fixed_cost_bytes = 256 * 1024;
/// Copies gain nothing any more from being larger, and buffers of pinned memory are dear.
constexpr double largest_segment_bytes = 64 << 20;

/// What of one image moves in each direction, and what of it lies in the buffers of a stream.
struct ImageBytes {
  std::size_t in = 0, out = 0;
  std::size_t buffers[3] = {};  ///< of x, of y, and of the mask
};

ImageBytes image_bytes(const ConvProblem& problem, const ConvOptions& options) {
  const std::size_t element = size_in_bytes(problem.dtype);
  const std::size_t x = elements_per_image(problem.x_extents()) * element,
                    y = elements_per_image(problem.y_extents()) * element;
  ImageBytes bytes{.buffers = {x, y, options.relu_mask ? y : 0}};
  switch (problem.direction) {
    case Direction::forward: bytes.in = x, bytes.out = y; break;
    case Direction::backward_data: bytes.in = y, bytes.out = x; break;
    case Direction::backward_weights: bytes.in = x + y; break;
  }
  bytes.in += bytes.buffers[2];
  if (options.accumulate) bytes.in += bytes.out;
  return bytes;
}

/// What a segment costs beside its bytes, in bytes of the link: in backward weights also that dw is
/// written and added, by a memory many times as fast.
double fixed_cost(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights) return fixed_cost_bytes;
  constexpr double passes = 4, memory_over_link = 60;
  const auto dw = static_cast<double>(bytes_of(problem.dtype, problem.w_extents()));
  return fixed_cost_bytes + passes * dw / memory_over_link;
}

/// So that no segment is much smaller than the others.
std::int64_t evened(std::int64_t batch, std::int64_t images) {
  const std::int64_t count = (batch + images - 1) / images;
  return (batch + count - 1) / count;
}

std::int64_t chosen_images(const ConvProblem& problem, const ConvOptions& options) {
  // Sums of segments would be another tree than the one that is specified.
  if (options.reproducible && problem.direction == Direction::backward_weights) return problem.n;
  const ImageBytes image = image_bytes(problem, options);
  const auto larger = static_cast<double>(std::max(image.in, image.out));
  const double best = std::sqrt(larger * static_cast<double>(problem.n) * fixed_cost(problem));
  const double images = std::min(best, largest_segment_bytes) / larger;
  return evened(problem.n, std::clamp<std::int64_t>(std::llround(images), 1, problem.n));
}

/// The same algorithm for the last segment as for the others, so that one batch is computed in one
/// way, unless it cannot run there.
ConvPlan plan_like(const ConvPlan& plan, const ConvProblem& problem, const ConvOptions& options) {
  ConvOptions same = options;
  same.algorithm = plan.algorithm().name;
  const auto candidates = explain(plan.device(), problem, same);
  const bool possible = std::any_of(candidates.begin(), candidates.end(),
                                    [](const ConvCandidate& one) { return one.chosen; });
  return ConvPlan(plan.device(), problem, possible ? same : options);
}

/// What is on the device beside the streams and the workspace.
std::size_t resident_bytes(const ConvProblem& problem, const ConvOptions& options,
                           const Segments& segments) {
  const std::size_t filters = aligned(bytes_of(problem.dtype, problem.w_extents()));
  const std::size_t bias =
      options.bias ? aligned(bytes_of(problem.dtype, {bias_elements(problem)})) : 0;
  if (problem.direction != Direction::backward_weights) return filters + bias;
  const std::int64_t kept = PartialSums::kept(segments.count) + (options.accumulate ? 1 : 0);
  return static_cast<std::size_t>(kept) * (filters + bias);
}

std::size_t bytes_needed(const ConvProblem& problem, const ConvOptions& options,
                         const Segments& segments) {
  const auto images = static_cast<std::size_t>(segments.images);
  std::size_t buffers = 0;
  for (const std::size_t image : image_bytes(problem, options).buffers)
    buffers += aligned(images * image);
  return resident_bytes(problem, options, segments) + segments.workspace_bytes +
         static_cast<std::size_t>(segments.streams) * buffers;
}

/// What a segment is planned with: the gradients of segments are added behind it.
ConvOptions segment_options(const ConvProblem& problem, ConvOptions options) {
  if (problem.direction == Direction::backward_weights) options.accumulate = false;
  return options;
}

Segments segments_of(const Device& device, const ConvProblem& problem, const ConvOptions& options,
                     std::int64_t images, int streams) {
  const ConvOptions of_segment = segment_options(problem, options);
  Segments segments{.batch = problem.n,
                    .images = images,
                    .count = (problem.n + images - 1) / images,
                    .plan = ConvPlan(device, with_batch(problem, images), of_segment),
                    .last_plan = std::nullopt};
  segments.streams = static_cast<int>(std::min<std::int64_t>(streams, segments.count));
  segments.workspace_bytes = segments.plan.workspace_bytes();
  if (const std::int64_t rest = problem.n % images; rest != 0) {
    segments.last_plan = plan_like(segments.plan, with_batch(problem, rest), of_segment);
    segments.workspace_bytes =
        std::max(segments.workspace_bytes, segments.last_plan->workspace_bytes());
  }
  segments.device_bytes = bytes_needed(problem, options, segments);
  return segments;
}

/// Half of what is free. Where it would have a say in the order of a sum, and the bits are to be
/// the same every time, half of all that the device has.
std::size_t default_budget(const Device& device, const ConvProblem& problem,
                           const ConvOptions& options) {
  const bool sums = problem.direction == Direction::backward_weights;
  const std::size_t all = device.info().memory_bytes;
  return (sums && options.deterministic && all > 0 ? all : device.free_bytes()) / 2;
}

[[noreturn]] void throw_over_budget(const Device& device, const Segments& segments,
                                    std::size_t budget) {
  throw Error(
      ErrorCode::out_of_memory,
      fmt::format("pipeline: {} image{} at a time in {} stream{} need{} {} bytes of {}, of "
                  "which {} are workspace; the memory budget is {} bytes",
                  segments.images, segments.images == 1 ? "" : "s", segments.streams,
                  segments.streams == 1 ? "" : "s", segments.images == 1 ? "s" : "",
                  segments.device_bytes, to_string(device.id()), segments.workspace_bytes, budget));
}

}  // namespace

std::int64_t elements_per_image(const Extents& extents) {
  std::int64_t count = 1;
  for (int i = 1; i < extents.rank(); ++i) count *= extents[i];
  return count;
}

ConvProblem with_batch(ConvProblem problem, std::int64_t n) {
  problem.n = n;
  return problem;
}

Segments cut_into_segments(const Device& device, const ConvProblem& problem,
                           const ConvOptions& options, const PipelineOptions& pipeline) {
  const std::size_t budget = pipeline.memory_budget_bytes > 0
                                 ? pipeline.memory_budget_bytes
                                 : default_budget(device, problem, options);
  const bool given = pipeline.images_per_segment > 0;
  std::int64_t images =
      given ? std::min(pipeline.images_per_segment, problem.n) : chosen_images(problem, options);
  int streams = pipeline.streams;
  for (;;) {
    Segments segments = segments_of(device, problem, options, images, streams);
    if (segments.device_bytes <= budget) return segments;
    if (images > 1 && !given) {
      // In proportion at first; workspace and filters need not be, and then it takes more rounds.
      const double share = static_cast<double>(budget) / static_cast<double>(segments.device_bytes);
      const auto fewer = static_cast<std::int64_t>(share * static_cast<double>(images));
      images = std::clamp<std::int64_t>(fewer, 1, images - 1);
    } else if (segments.streams > 1 && !given) {
      streams = segments.streams - 1;
    } else {
      throw_over_budget(device, segments, budget);
    }
  }
}

}  // namespace plumb
