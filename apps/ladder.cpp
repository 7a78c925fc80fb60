// plumb ladder: every technique on the four layers, each beside the one before.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "ladder_report.hpp"
#include "measured.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "selection.hpp"

namespace plumb::app {
namespace {

struct LadderArguments {
  DeviceArguments device = {.name = "auto"};
  std::string layer, json, plot;
  std::int64_t batch = 0;
  int samples = MeasureOptions{}.min_samples;
  bool batches = false, all = false;
};

std::vector<ValidationCase> layers_of(const LadderArguments& arguments, const DeviceId& device) {
  ProblemArguments problems;
  problems.suite = "four";
  problems.batch = arguments.batch;
  std::vector<ValidationCase> layers = selected_cases(problems, device);
  if (arguments.layer.empty()) return layers;
  const std::vector<ValidationCase> all = layers;
  std::erase_if(layers, [&](const ValidationCase& one) { return one.name != arguments.layer; });
  if (!layers.empty()) return layers;
  std::vector<std::string_view> names;
  for (const ValidationCase& one : all) names.push_back(one.name);
  throw UsageError(fmt::format("--layer: {}, expected one of: {}{}", plumb::quoted(arguments.layer),
                               fmt::join(names, ", "), did_you_mean(arguments.layer, names)));
}

/// Everything of Plumb's own that runs the problem on the device, timed in turns.
class Contest {
 public:
  Contest(const Device& device, const ConvProblem& problem, const DeviceCeilings& ceilings,
          const MeasureOptions& options)
      : device_(device), problem_(problem) {
    std::vector<ConvPlan> plans;
    for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
      if (!algorithm->name.starts_with(fmt::format("{}.conv.", device.id().backend))) continue;
      const ConvCandidate candidate = ask(*algorithm, problem, device.info());
      const Support support = candidate.support
                                  ? fits_in_memory(device, problem, candidate.workspace_bytes)
                                  : candidate.support;
      if (!support) {
        refused_.push_back({algorithm, support.sentence});
        continue;
      }
      ConvOptions forced;
      forced.algorithm = algorithm->name;
      forced.math = math_class(algorithm->numerics, problem.dtype);
      plans.emplace_back(device, problem, forced);
      entrants_.push_back({algorithm, {}});
    }
    const Measurements seen = measure(plans, options);
    clock_hertz_ = seen.clock_hertz;
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      LadderVariant& variant = entrants_[i].variant;
      variant.measurement = seen.contestants[i];
      variant.math = plans[i].options().math;
      if (variant.measurement.failure.empty())
        variant.roofline_fraction =
            roofline_seconds(ceilings, problem, variant.math) / variant.measurement.median_seconds;
    }
  }

  double clock_hertz() const { return clock_hertz_; }
  LadderRung rung(const Rung& rung) const;
  /// Throws where an algorithm failed or was wrong.
  void require_right() const;

 private:
  struct Entrant {
    const ConvAlgorithm* algorithm;
    LadderVariant variant;
  };
  struct Refused {
    const ConvAlgorithm* algorithm;
    std::string sentence;
  };

  /// Whether a plan that allows fp32 may choose it.
  bool may_be_chosen(const ConvAlgorithm& algorithm) const {
    return !algorithm.forced_only && !algorithm.provider &&
           allows(Math::fp32, math_class(algorithm.numerics, problem_.dtype));
  }
  /// By estimate alone: what has been tuned on this machine does not count.
  const ConvAlgorithm* chosen_by_estimate() const;
  std::string why_missing(const Rung& rung) const;

  Device device_;
  ConvProblem problem_;
  std::vector<Entrant> entrants_;
  std::vector<Refused> refused_;
  double clock_hertz_ = 0;
};

const ConvAlgorithm* Contest::chosen_by_estimate() const {
  const ConvAlgorithm* best = nullptr;
  double best_seconds = 0;
  for (const Entrant& one : entrants_) {
    if (!may_be_chosen(*one.algorithm)) continue;
    const double seconds = ask(*one.algorithm, problem_, device_.info()).estimate_seconds;
    if (best && seconds >= best_seconds) continue;
    best = one.algorithm;
    best_seconds = seconds;
  }
  return best;
}

std::string Contest::why_missing(const Rung& rung) const {
  for (const Refused& one : refused_)
    if (is_variant(rung, *one.algorithm)) return one.sentence;
  for (const Entrant& one : entrants_)
    if (is_variant(rung, *one.algorithm)) return one.variant.measurement.failure;
  return fmt::format("not on {}", device_.id().backend);
}

LadderRung Contest::rung(const Rung& rung) const {
  LadderRung result{.rung = &rung};
  if (rung.kind == RungKind::pipeline) return result;
  const ConvAlgorithm* chosen = chosen_by_estimate();
  for (const Entrant& one : entrants_) {
    const bool stands_here = rung.kind == RungKind::chosen  ? one.algorithm == chosen
                             : rung.kind == RungKind::tuned ? may_be_chosen(*one.algorithm)
                                                            : is_variant(rung, *one.algorithm);
    if (stands_here && one.variant.measurement.failure.empty())
      result.variants.push_back(one.variant);
  }
  std::sort(result.variants.begin(), result.variants.end(), [](const auto& a, const auto& b) {
    return a.measurement.median_seconds < b.measurement.median_seconds;
  });
  if (rung.kind == RungKind::tuned && !result.variants.empty()) result.variants.resize(1);
  if (result.variants.empty()) result.missing = why_missing(rung);
  return result;
}

void Contest::require_right() const {
  for (const Entrant& one : entrants_) app::require_right(problem_, one.variant.measurement);
}

/// The layer with its copies, by what a plan chooses for a segment.
LayerTime time_layer(const Device& device, const ConvProblem& problem) {
  const HostCase host(device, problem, HostMemory::pinned);
  ConvPipeline pipeline(device, problem);
  const ConvAlgorithm& algorithm = pipeline.plan().algorithm();
  LayerTime time{.algorithm = algorithm.name};
  time.stages = time_stages(device, pipeline, host);
  time.pipeline_seconds = time_pipeline(pipeline, host);
  time.max_error_over_bound = host.max_error_over_bound(pipeline);
  ConvPipeline one_stream(device, problem, {}, {.streams = 1});
  time.one_stream_seconds = time_pipeline(one_stream, host);
  return time;
}

std::vector<BatchTime> time_batches(const Device& device, const LadderLayer& layer,
                                    const MeasureOptions& options) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t n : {100, 1000, 5000, 10000})
    if (n < layer.problem.n) sizes.push_back(n);
  sizes.push_back(layer.problem.n);
  std::vector<BatchTime> batches;
  for (const std::int64_t n : sizes) {
    ConvProblem problem = layer.problem;
    problem.n = n;
    const ConvPlan plan(device, problem);
    BatchTime batch{.n = n, .time = time_layer(device, problem)};
    batch.time.algorithm = plan.algorithm().name;
    batch.time.op_seconds = measure({&plan, 1}, options).contestants.front().median_seconds;
    batches.push_back(std::move(batch));
  }
  return batches;
}

void require_right(const std::string& name, const LayerTime& time) {
  if (!(time.max_error_over_bound <= 1))
    throw ValidationFailure(
        fmt::format("{} through the pipeline: an output is off by {:.3g} times its bound", name,
                    time.max_error_over_bound));
}

void run(const LadderArguments& arguments) {
  for (const std::string& path : {arguments.json, arguments.plot})
    if (!path.empty()) require_writable(path);
  const Device device = open_device(arguments.device);
  const auto cases = layers_of(arguments, device.id());
  const MeasureOptions options{.min_samples = arguments.samples,
                               .max_samples = std::max(arguments.samples, 100),
                               .give_up_factor = 30};
  const DeviceCeilings ceilings = device.measure_ceilings();
  print_device(device, ceilings);
  std::vector<LadderLayer> layers;
  std::vector<Contest> contests;
  {
    ProgressBar bar("ladder on " + to_string(device.id()), static_cast<std::int64_t>(cases.size()));
    for (const ValidationCase& one : cases) {
      LadderLayer layer{.name = one.name,
                        .problem = fit_to_memory(device, one.problem, true),
                        .asked_batch = one.problem.n};
      layer.roofline_seconds = roofline_seconds(ceilings, layer.problem, Math::fp32);
      const Contest& contest = contests.emplace_back(device, layer.problem, ceilings, options);
      layer.clock_hertz = contest.clock_hertz();
      for (const Rung& rung : ladder_rungs()) layer.rungs.push_back(contest.rung(rung));
      layer.with_copies = time_layer(device, layer.problem);
      if (arguments.batches) layer.batches = time_batches(device, layer, options);
      layers.push_back(std::move(layer));
      bar.show(static_cast<std::int64_t>(layers.size()));
    }
  }
  for (const LadderLayer& layer : layers) print(layer, arguments.all);
  if (arguments.batches) print_batches(layers);
  if (!arguments.json.empty()) write_ladder(arguments.json, device, ceilings, layers);
  if (!arguments.plot.empty()) write_text(arguments.plot, to_svg(ladder_chart(layers, device)));
  for (const Contest& contest : contests) contest.require_right();
  for (const LadderLayer& layer : layers) {
    require_right(layer.name, layer.with_copies);
    for (const BatchTime& batch : layer.batches) require_right(layer.name, batch.time);
  }
}

}  // namespace

void add_ladder(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "ladder", "Time nineteen techniques on four layers, each beside the one before");
  const auto a = std::make_shared<LadderArguments>();
  add_device_option(*command, a->device);
  add_integer(*command, "--batch", a->batch, 1,
              "Number of images N; without it 10000, on a CPU 500, or as many as memory holds");
  command->add_option("--layer", a->layer,
                      "Time only this layer: ece408_l1, ece408_l2, eecs471_l1 or eecs471_l2");
  add_integer(*command, "--samples", a->samples, 1,
              "Take at least this many samples of each algorithm")
      ->capture_default_str();
  command->add_flag("--all", a->all, "Print every variant of each technique, not only the fastest");
  command->add_flag("--batches", a->batches,
                    "Also time batches of 100, 1000, 5000 and 10000 images: the kernel alone, and "
                    "the layer with its copies");
  command->add_option("--json", a->json, "Also write every time to this file as JSON");
  command->add_option("--plot", a->plot, "Draw the rungs that the device has to this file (SVG)");
  command->footer(
      "gain is the speed over the last rung before it that ran; for tuning, over rung 9. Exit code "
      "1: an\nalgorithm failed or was wrong.\nExamples:\n  plumb ladder --json ladder.json --plot "
      "ladder.svg --batches\n  plumb ladder --layer eecs471_l2 --all");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
