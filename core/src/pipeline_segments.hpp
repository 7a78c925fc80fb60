// How a pipeline cuts its batch.
#pragma once

#include <optional>

#include "plumb/pipeline.hpp"

namespace plumb {

/// Segments of a batch, all of one size but the last, and the plans that run them.
struct Segments {
  std::int64_t batch = 0;
  std::int64_t images = 0;  ///< of each segment but the last
  std::int64_t count = 0;
  int streams = 1;
  ConvPlan plan;
  std::optional<ConvPlan> last_plan;  ///< where the last segment is smaller
  std::size_t workspace_bytes = 0;    ///< for either plan
  std::size_t device_bytes = 0;       ///< buffers of all streams, what they share, and workspace

  std::int64_t first_image(std::int64_t segment) const { return segment * images; }
  std::int64_t images_of(std::int64_t segment) const {
    return segment + 1 < count ? images : batch - first_image(segment);
  }
  const ConvPlan& plan_of(std::int64_t segment) const {
    return last_plan && segment + 1 == count ? *last_plan : plan;
  }
};

/// Cuts the batch of a checked problem whose images are dense. Errors as ConvPipeline's
/// constructor.
Segments cut_into_segments(const Device& device, const ConvProblem& problem,
                           const ConvOptions& options, const PipelineOptions& pipeline);

/// The product of the extents behind the first.
std::int64_t elements_per_image(const Extents& extents);

/// `problem` with another batch.
ConvProblem with_batch(ConvProblem problem, std::int64_t n);

}  // namespace plumb
