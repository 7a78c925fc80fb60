// plumb pipeline: a batch on the host through a device, in segments that overlap.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "options.hpp"
#include "pipeline_report.hpp"
#include "progress.hpp"
#include "selection.hpp"

namespace plumb::app {
namespace {

struct PipelineArguments {
  DeviceArguments device = {.name = "auto"};
  std::string algorithm = "auto", json, plot;
  ProblemArguments problems;
  std::vector<int> streams{1, 2, 4, 8};
  std::vector<std::string> memory{"pageable", "pinned"};
  std::size_t budget_bytes = 0;
  std::int64_t images_per_segment = 0;
  std::uint64_t seed = 1;
  bool reproducible = false;
};

/// What the pattern names, with the arithmetic that it takes; `auto` leaves the choice to the plan.
ConvOptions options_of(const Device& device, const ConvProblem& problem,
                       const PipelineArguments& arguments) {
  ConvOptions options{.reproducible = arguments.reproducible};
  if (arguments.algorithm == "auto") return options;
  const auto named = selected_algorithms(device, arguments.algorithm);
  if (named.size() > 1)
    throw UsageError(fmt::format("--algorithm: {} names {} algorithms, expected one",
                                 plumb::quoted(arguments.algorithm), named.size()));
  options.algorithm = named.front()->name;
  options.math = math_class(named.front()->numerics, problem.dtype);
  return options;
}

HostMemory parse_memory(const std::string& name) {
  return name == "pinned" ? HostMemory::pinned : HostMemory::pageable;
}

PipelineRecord run_pipeline(ConvPipeline& pipeline, HostCase& host, HostMemory memory,
                            int streams_asked) {
  PipelineRecord record{.memory = memory,
                        .streams_asked = streams_asked,
                        .streams = pipeline.streams(),
                        .segments = pipeline.segments(),
                        .images_per_segment = pipeline.images_per_segment(),
                        .device_bytes = pipeline.device_bytes()};
  record.seconds = time_pipeline(pipeline, host);
  host.poison_output();
  pipeline.run(host.tensors(), &record.timeline);
  record.max_error_over_bound = host.max_error_over_bound(pipeline);
  for (const PipelineSpan& span : record.timeline)
    if (span.stage == PipelineStage::fill || span.stage == PipelineStage::drain)
      record.staging_seconds += span.end_seconds - span.begin_seconds;
  return record;
}

PipelineCaseRecord run_case(const Device& device, const ValidationCase& test,
                            const PipelineArguments& arguments, ProgressBar& bar,
                            std::int64_t& done) {
  PipelineCaseRecord all{.test = test};
  all.test.problem = check(test.problem);
  const ConvOptions options = options_of(device, test.problem, arguments);
  const auto pipeline_of = [&](int streams) {
    return ConvPipeline(device, test.problem, options,
                        {.streams = streams,
                         .memory_budget_bytes = arguments.budget_bytes,
                         .images_per_segment = arguments.images_per_segment});
  };
  {
    const ConvPipeline pipeline = pipeline_of(PipelineOptions{}.streams);
    const HostCase host(device, all.test.problem, HostMemory::pinned, arguments.seed);
    all.algorithm = pipeline.plan().algorithm().name;
    all.stages = time_stages(device, pipeline, host);
  }
  for (const std::string& memory : arguments.memory) {
    HostCase host(device, all.test.problem, parse_memory(memory), arguments.seed);
    for (const int streams : arguments.streams) {
      ConvPipeline pipeline = pipeline_of(streams);
      all.records.push_back(run_pipeline(pipeline, host, parse_memory(memory), streams));
      all.records.back().memory_budget_bytes = arguments.budget_bytes;
      bar.show(++done);
    }
  }
  return all;
}

/// The fastest run of the first problem.
void draw(const std::string& path, const PipelineCaseRecord& one, const Device& device) {
  const auto fastest =
      std::min_element(one.records.begin(), one.records.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  write_text(path, to_svg(timeline_of(one, *fastest, device)));
}

void require_right(const std::vector<PipelineCaseRecord>& all) {
  for (const PipelineCaseRecord& one : all)
    for (const PipelineRecord& record : one.records)
      if (!(record.max_error_over_bound <= 1))
        throw ValidationFailure(fmt::format(
            "{} with {} memory and {} streams: an output is off by {:.3g} times its bound",
            to_string(one.test.problem), to_string(record.memory), record.streams,
            record.max_error_over_bound));
}

void run(const PipelineArguments& arguments) {
  for (const std::string& path : {arguments.json, arguments.plot})
    if (!path.empty()) require_writable(path);
  const Device device = open_device(arguments.device);
  const auto cases = selected_cases(arguments.problems, device.id());
  fmt::print("{}  {}\n\n", to_string(device.id()), device.info().name);
  std::vector<PipelineCaseRecord> all;
  {
    const std::size_t runs = cases.size() * arguments.memory.size() * arguments.streams.size();
    ProgressBar bar("pipeline on " + to_string(device.id()), static_cast<std::int64_t>(runs));
    std::int64_t done = 0;
    for (const ValidationCase& one : cases) {
      if (one.problem.n == 0)
        throw UsageError(
            fmt::format("{}: N is 0, expected at least one image to time", to_string(one.problem)));
      all.push_back(run_case(device, one, arguments, bar, done));
    }
  }
  for (const PipelineCaseRecord& one : all) print(one);
  fmt::print(
      "Medians of the wall clock, from host memory to host memory. 'Alone' is one stage of the "
      "whole batch\nin the same segments, with pinned memory.{}\n",
      device.id() == host ? " On the CPU nothing is copied or cut." : "");
  if (!arguments.json.empty()) write_pipelines(arguments.json, device, all);
  if (!arguments.plot.empty()) draw(arguments.plot, all.front(), device);
  require_right(all);
}

}  // namespace

void add_pipeline(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "pipeline", "Time a batch in host memory, copied through a device in segments that overlap");
  const auto a = std::make_shared<PipelineArguments>();
  add_device_option(*command, a->device);
  add_problem_options(*command, a->problems);
  add_suite_options(*command, a->problems);
  add_direction_option(*command, a->problems);
  add_algorithm_option(*command, a->algorithm,
                       "Run this algorithm; auto: the one that a plan chooses for a segment");
  add_reproducible(*command, a->reproducible);
  add_integer(*command, "--streams", a->streams, 1,
              "Number of segments in flight: one value, or several to be compared")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--memory", a->memory, "Kind of host memory: pageable, pinned, or both")
      ->delimiter(',')
      ->check(one_of({"pageable", "pinned"}))
      ->capture_default_str();
  command
      ->add_option("--budget", a->budget_bytes,
                   "Take at most this much of the device's memory (500MB, 2GB); without it, half "
                   "of what is free")
      ->transform(byte_count());
  add_integer(*command, "--segment", a->images_per_segment, 1,
              "Images in a segment; without it Plumb chooses by the size of the batch");
  add_seed(*command, a->seed, "Seed of the data");
  command->add_option("--json", a->json, "Also write every time to this file as JSON");
  command->add_option("--plot", a->plot,
                      "Draw the timeline of the first problem's fastest run to this file (SVG)");
  command->footer(
      "Exit code 1 where an output is wrong.\n"
      "Examples:\n"
      "  plumb pipeline --suite four --json four.json\n"
      "  plumb pipeline --problem mb10000ic1ih86oc4kh7 --streams 4 --memory pinned --plot t.svg\n"
      "  plumb pipeline --suite four --budget 100MB\n"
      "  plumb pipeline --suite four --direction backward_weights --segment 500");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
