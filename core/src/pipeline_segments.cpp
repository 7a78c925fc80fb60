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

#include "plumb/error.hpp"

namespace plumb {
namespace {

/// What a segment's fixed cost of about 5 us is worth on a link of some 50 GB/s.
constexpr double fixed_cost_bytes = 256 * 1024;
/// Copies gain nothing any more from being larger, and buffers of pinned memory are dear.
constexpr double largest_segment_bytes = 64 << 20;

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct ImageBytes {
  std::size_t x = 0, y = 0;
};

ImageBytes image_bytes(const ConvProblem& problem) {
  const std::size_t element = size_in_bytes(problem.dtype);
  return {elements_per_image(problem.x_extents()) * element,
          elements_per_image(problem.y_extents()) * element};
}

/// So that no segment is much smaller than the others.
std::int64_t evened(std::int64_t batch, std::int64_t images) {
  const std::int64_t count = (batch + images - 1) / images;
  return (batch + count - 1) / count;
}

std::int64_t chosen_images(const ConvProblem& problem) {
  const ImageBytes image = image_bytes(problem);
  const auto larger = static_cast<double>(std::max(image.x, image.y));
  const double best = std::sqrt(larger * static_cast<double>(problem.n) * fixed_cost_bytes);
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

std::size_t bytes_needed(const ConvProblem& problem, const ConvOptions& options,
                         const Segments& segments) {
  const std::size_t element = size_in_bytes(problem.dtype);
  const ImageBytes image = image_bytes(problem);
  const auto images = static_cast<std::size_t>(segments.images);
  const std::size_t filters = aligned(element_count(problem.w_extents()) * element);
  const std::size_t bias = options.bias ? aligned(problem.k * element) : 0;
  const std::size_t buffers = aligned(images * image.x) + aligned(images * image.y);
  return filters + bias + segments.workspace_bytes +
         static_cast<std::size_t>(segments.streams) * buffers;
}

Segments segments_of(const Device& device, const ConvProblem& problem, const ConvOptions& options,
                     std::int64_t images, int streams) {
  Segments segments{.batch = problem.n,
                    .images = images,
                    .count = (problem.n + images - 1) / images,
                    .plan = ConvPlan(device, with_batch(problem, images), options),
                    .last_plan = std::nullopt};
  segments.streams = static_cast<int>(std::min<std::int64_t>(streams, segments.count));
  segments.workspace_bytes = segments.plan.workspace_bytes();
  if (const std::int64_t rest = problem.n % images; rest != 0) {
    segments.last_plan = plan_like(segments.plan, with_batch(problem, rest), options);
    segments.workspace_bytes =
        std::max(segments.workspace_bytes, segments.last_plan->workspace_bytes());
  }
  segments.device_bytes = bytes_needed(problem, options, segments);
  return segments;
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
  const std::size_t budget =
      pipeline.memory_budget_bytes > 0 ? pipeline.memory_budget_bytes : device.free_bytes() / 2;
  const bool given = pipeline.images_per_segment > 0;
  std::int64_t images =
      given ? std::min(pipeline.images_per_segment, problem.n) : chosen_images(problem);
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
