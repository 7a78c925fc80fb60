// The table, the JSON and the picture of plumb pipeline.
#include "pipeline_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench_report.hpp"
#include "json_file.hpp"

namespace plumb::app {
namespace {

const char* name_of_slowest(const StageSeconds& stages) {
  if (stages.slowest() == stages.kernel) return "kernel";
  return stages.slowest() == stages.copy_in ? "copy in" : "copy out";
}

std::string copy_rate(double bytes, double seconds) {
  if (seconds == 0) return "none";
  return fmt::format("{:.3f} ms ({:.1f} GB/s)", seconds * 1e3, bytes / seconds * 1e-9);
}

struct BatchBytes {
  double in, out;
};

BatchBytes bytes_of(const ConvProblem& problem) {
  const auto element = static_cast<double>(size_in_bytes(problem.dtype));
  const auto bytes = [&](const ConvOperand& part) {
    return static_cast<double>(element_count(part.extents)) * element;
  };
  const bool weights = problem.direction == Direction::backward_weights;
  return {bytes(image_of(problem)) + (weights ? bytes(filters_of(problem)) : 0),
          bytes(output_of(problem))};
}

nlohmann::ordered_json to_json(const PipelineCaseRecord& one, const PipelineRecord& record,
                               const std::string& device) {
  const ConvProblem& problem = one.test.problem;
  return {{"problem", to_string(problem)},
          {"name", one.test.name},
          {"direction", to_string(problem.direction)},
          {"device", device},
          {"algorithm", one.algorithm},
          {"dtype", to_string(problem.dtype)},
          {"layout", to_string(one.test.placement)},
          {"memory", to_string(record.memory)},
          {"streams_asked", record.streams_asked},
          {"streams", record.streams},
          {"segments", record.segments},
          {"images_per_segment", record.images_per_segment},
          {"device_bytes", record.device_bytes},
          {"memory_budget_bytes", record.memory_budget_bytes},
          {"median_seconds", record.seconds},
          {"images_per_second", static_cast<double>(problem.n) / record.seconds},
          {"staging_seconds", record.staging_seconds},
          {"copy_in_alone_seconds", one.stages.copy_in},
          {"kernel_alone_seconds", one.stages.kernel},
          {"copy_out_alone_seconds", one.stages.copy_out},
          {"over_slowest_stage", record.seconds / one.stages.slowest()},
          {"max_error_over_bound", record.max_error_over_bound}};
}

}  // namespace

void print(const PipelineCaseRecord& one) {
  const ConvProblem& problem = one.test.problem;
  const BatchBytes bytes = bytes_of(problem);
  fmt::print("{}{}{}  {} {}\n  {}\n", one.test.name, one.test.name.empty() ? "" : "  ",
             to_string(problem), to_string(problem.dtype), to_string(one.test.placement),
             one.algorithm);
  fmt::print("  alone: copy in {}, kernel {:.3f} ms, copy out {}\n",
             copy_rate(bytes.in, one.stages.copy_in), one.stages.kernel * 1e3,
             copy_rate(bytes.out, one.stages.copy_out));
  fmt::print(
      "  memory    streams  segments  images each  device MB        ms    images/s  staging ms  "
      "over {:<8}  err/bound\n",
      name_of_slowest(one.stages));
  for (const PipelineRecord& record : one.records) {
    const std::string streams = record.streams == record.streams_asked
                                    ? std::to_string(record.streams)
                                    : fmt::format("{}>{}", record.streams_asked, record.streams);
    fmt::print(
        "  {:<8}  {:>7}  {:>8}  {:>11}  {:>9.1f}  {:>8.3f}  {:>10.0f}  {:>10.3f}  {:>13.3f}"
        "  {:>9.3f}\n",
        to_string(record.memory), streams, record.segments, record.images_per_segment,
        static_cast<double>(record.device_bytes) * 1e-6, record.seconds * 1e3,
        static_cast<double>(problem.n) / record.seconds, record.staging_seconds * 1e3,
        record.seconds / one.stages.slowest(), record.max_error_over_bound);
  }
  fmt::print("\n");
}

void write_pipelines(const std::string& path, const Device& device,
                     const std::vector<PipelineCaseRecord>& all) {
  const std::string name = to_string(device.id());
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  for (const PipelineCaseRecord& one : all)
    for (const PipelineRecord& record : one.records) records.push_back(to_json(one, record, name));
  write_json(path, {{"version", version},
                    {"date", timestamp()},
                    {"device", name},
                    {"device_name", device.info().name},
                    {"driver_version", device.info().driver_version},
                    {"records", std::move(records)}});
}

Timeline timeline_of(const PipelineCaseRecord& one, const PipelineRecord& record,
                     const Device& device) {
  const bool staged = record.staging_seconds > 0;
  Timeline timeline{
      .title = fmt::format("{} on {}: {} memory, {} streams",
                           one.test.name.empty() ? to_string(one.test.problem) : one.test.name,
                           device.info().name, to_string(record.memory), record.streams),
      .series = {"copy in", "kernel", "copy out"}};
  if (staged) timeline.series.emplace_back("the calling thread's copies");
  for (int stream = 0; stream < record.streams; ++stream)
    timeline.lanes.push_back({.label = fmt::format("stream {}", stream + 1)});
  if (staged) timeline.lanes.push_back({.label = "calling thread"});
  for (const PipelineSpan& span : record.timeline) {
    const bool on_host = span.stage == PipelineStage::fill || span.stage == PipelineStage::drain;
    const std::size_t series = on_host                                ? 3
                               : span.stage == PipelineStage::copy_in ? 0
                               : span.stage == PipelineStage::kernel  ? 1
                                                                      : 2;
    TimelineLane& lane =
        on_host ? timeline.lanes.back() : timeline.lanes[static_cast<std::size_t>(span.stream)];
    const std::int64_t segment = span.first_image / record.images_per_segment + 1;
    lane.spans.push_back({span.begin_seconds, span.end_seconds, series, std::to_string(segment)});
  }
  return timeline;
}

}  // namespace plumb::app
