// What plumb pipeline has seen, as a table, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "plot/timeline.hpp"
#include "plumb/plumb.hpp"
#include "time_pipeline.hpp"

namespace plumb::app {

/// One kind of memory with one number of streams.
struct PipelineRecord {
  HostMemory memory = HostMemory::pinned;
  int streams_asked = 0, streams = 0;
  std::int64_t segments = 0, images_per_segment = 0;
  std::size_t device_bytes = 0;
  std::size_t memory_budget_bytes = 0;  ///< as asked for; 0: half of what was free
  double seconds = 0;                   ///< wall clock, median
  double staging_seconds = 0;           ///< of those, the calling thread's own copies
  double max_error_over_bound = 0;
  std::vector<PipelineSpan> timeline = {};  ///< of a run of its own
};

/// All that is known of one problem.
struct PipelineCaseRecord {
  ValidationCase test;
  std::string_view algorithm = {};
  StageSeconds stages = {};
  std::vector<PipelineRecord> records = {};
};

void print(const PipelineCaseRecord& one);
void write_pipelines(const std::string& path, const Device& device,
                     const std::vector<PipelineCaseRecord>& all);
/// A lane for each stream, and one for the calling thread where it copies.
Timeline timeline_of(const PipelineCaseRecord& one, const PipelineRecord& record,
                     const Device& device);

}  // namespace plumb::app
