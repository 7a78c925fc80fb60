// plumb tune: times what can run, and keeps the times for later plans.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "bench_report.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "json_file.hpp"
#include "options.hpp"
#include "plot/bar_chart.hpp"
#include "plumb/plumb.hpp"
#include "progress.hpp"
#include "selection.hpp"

namespace plumb::app {
namespace {

struct TuneArguments {
  std::string device = "auto", math, plot, json;
  ProblemArguments problems;
  int samples = MeasureOptions{}.min_samples;
  bool no_cache = false;
};

struct Tuned {
  std::string name;  ///< of the problem, or its text
  TuneResult result;
};

/// Whether it was timed and did not fail.
bool has_time(const TunedAlgorithm& one) { return one.support && one.measurement.failure.empty(); }

const TunedAlgorithm* fastest(const TuneResult& result) {
  const TunedAlgorithm* best = nullptr;
  for (const TunedAlgorithm& one : result.algorithms)
    if (has_time(one) &&
        (!best || one.measurement.median_seconds < best->measurement.median_seconds))
      best = &one;
  return best;
}

void print(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  fmt::print("{}  {}\n", tuned.name, to_string(result.problem.dtype));
  std::size_t width = 9;
  for (const TunedAlgorithm& one : result.algorithms) width = std::max(width, one.algorithm.size());
  fmt::print("  {:<{}}  math  samples  median ms  estimate ms  workspace MB\n", "algorithm", width);
  const TunedAlgorithm* best = fastest(result);
  for (const TunedAlgorithm& one : result.algorithms) {
    const Measurement& seen = one.measurement;
    if (!one.support) {
      fmt::print("  {:<{}}  {:<4}  not run: {}\n", one.algorithm, width, to_string(one.error_class),
                 one.support.sentence);
      continue;
    }
    if (!seen.failure.empty()) {
      fmt::print("  {:<{}}  {:<4}  failed: {}\n", one.algorithm, width, to_string(one.error_class),
                 seen.failure);
      continue;
    }
    fmt::print("  {:<{}}  {:<4}  {:>7}  {:>9.4f}  {:>11.4f}  {:>12.1f}  {}\n", one.algorithm, width,
               to_string(one.error_class), seen.samples, seen.median_seconds * 1e3,
               one.estimate_seconds * 1e3, static_cast<double>(one.workspace_bytes) * 1e-6,
               &one == best ? "fastest" : (seen.given_up ? "given up" : ""));
  }
  fmt::print("\n");
}

/// The sweep as bars: a panel for each problem, a bar for each algorithm that ran in any of them.
BarChart chart_of(const std::vector<Tuned>& all, const Device& device) {
  BarChart chart{.title = fmt::format("Tuning on {}", device.info().name),
                 .axis = "median of the device's time, ms"};
  const auto& first = all.front().result.algorithms;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool timed = std::any_of(all.begin(), all.end(), [&](const Tuned& tuned) {
      return has_time(tuned.result.algorithms[i]);
    });
    if (timed) chart.categories.emplace_back(first[i].algorithm);
  }
  const auto series_of = [&](Math math) {
    const std::string name(to_string(math));
    const auto found = std::find(chart.series.begin(), chart.series.end(), name);
    const auto index = static_cast<std::size_t>(found - chart.series.begin());
    if (found == chart.series.end()) chart.series.push_back(name);
    return index;
  };
  for (const Tuned& tuned : all) {
    BarPanel panel{.title = tuned.name};
    for (const TunedAlgorithm& one : tuned.result.algorithms) {
      if (std::find(chart.categories.begin(), chart.categories.end(), one.algorithm) ==
          chart.categories.end())
        continue;
      Bar bar;
      bar.series = series_of(one.error_class);
      if (has_time(one))
        bar.value = one.measurement.median_seconds * 1e3;
      else
        bar.note = one.support ? "failed" : std::string(to_string(one.support.reason));
      if (has_time(one) && one.measurement.given_up) bar.note = "given up";
      panel.bars.push_back({std::move(bar)});
    }
    chart.panels.push_back(std::move(panel));
  }
  return chart;
}

nlohmann::ordered_json to_json(const Tuned& tuned) {
  nlohmann::ordered_json algorithms = nlohmann::ordered_json::array();
  for (const TunedAlgorithm& one : tuned.result.algorithms) {
    nlohmann::ordered_json json = {{"algorithm", one.algorithm},
                                   {"math", to_string(one.error_class)},
                                   {"reason", to_string(one.support.reason)},
                                   {"sentence", one.support.sentence}};
    if (one.support) {
      json["estimate_seconds"] = one.estimate_seconds;
      json["workspace_bytes"] = one.workspace_bytes;
      json["failure"] = one.measurement.failure;
    }
    if (has_time(one))
      json.update({{"samples", one.measurement.samples},
                   {"median_seconds", one.measurement.median_seconds},
                   {"min_seconds", one.measurement.min_seconds},
                   {"max_error_over_bound", one.measurement.max_error_over_bound},
                   {"given_up", one.measurement.given_up}});
    algorithms.push_back(std::move(json));
  }
  return {{"problem", to_string(tuned.result.problem)},
          {"name", tuned.name},
          {"dtype", to_string(tuned.result.problem.dtype)},
          {"sm_clock_mhz", tuned.result.measurements.clock_hertz * 1e-6},
          {"algorithms", std::move(algorithms)}};
}

void write_record(const std::string& path, const Device& device, const std::vector<Tuned>& all) {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const Tuned& tuned : all) problems.push_back(to_json(tuned));
  write_json(path, {{"version", version},
                    {"date", timestamp()},
                    {"device", to_string(device.id())},
                    {"device_name", device.info().name},
                    {"driver_version", device.info().driver_version},
                    {"cache", all.back().result.cache_path},
                    {"problems", std::move(problems)}});
}

/// Says where the times are; throws where they should be kept and are not.
void report_cache(const TuneArguments& arguments, const Device& device,
                  const std::vector<Tuned>& all) {
  if (arguments.no_cache) {
    fmt::print("cache  not written (--no-cache)\n");
    return;
  }
  std::set<std::string> remarks;
  bool kept = true;
  for (const Tuned& tuned : all) {
    kept = kept && !tuned.result.cache_path.empty();
    if (!tuned.result.cache_sentence.empty()) remarks.insert(tuned.result.cache_sentence);
  }
  if (!kept) throw FileError("the times are not kept: " + *remarks.begin());
  const TuneCacheReport report = tune_cache_report(device);
  fmt::print("cache  {}: {} problems tuned on this device\n", shown_path(report.path),
             report.problems);
  for (const std::string& remark : remarks) fmt::print("       {}\n", remark);
}

void run(const TuneArguments& arguments) {
  for (const std::string& path : {arguments.plot, arguments.json})
    if (!path.empty()) require_writable(path);
  const Device device = open_device(arguments.device);
  TuneOptions options;
  if (!arguments.math.empty()) options.math = parse_math(arguments.math);
  options.measure.min_samples = arguments.samples;
  options.measure.max_samples = std::max(options.measure.max_samples, arguments.samples);
  options.write = !arguments.no_cache;
  std::vector<Tuned> all;
  {
    const auto cases = selected_cases(arguments.problems, device.id());
    ProgressBar bar("tune on " + to_string(device.id()), static_cast<std::int64_t>(cases.size()));
    for (const ValidationCase& one : cases) {
      TuneResult result = tune(device, one.problem, options);
      all.push_back({one.name.empty() ? to_string(one.problem) : one.name, std::move(result)});
      bar.show(static_cast<std::int64_t>(all.size()));
    }
  }
  for (const Tuned& tuned : all) print(tuned);
  if (!arguments.plot.empty()) write_text(arguments.plot, to_svg(chart_of(all, device)));
  if (!arguments.json.empty()) write_record(arguments.json, device, all);
  report_cache(arguments, device, all);
}

}  // namespace

void add_tune(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "tune", "Time all algorithms that can run a problem, so that later plans take the fastest");
  const auto a = std::make_shared<TuneArguments>();
  add_device_option(*command, a->device);
  add_problem_options(*command, a->problems);
  add_suite_options(*command, a->problems);
  add_math_option(*command, a->math,
                  "Only algorithms that may serve this arithmetic, and plans that allow no other");
  add_integer(*command, "--samples", a->samples, 1,
              "Of each algorithm that is not given up, at least")
      ->capture_default_str();
  command->add_flag("--no-cache", a->no_cache, "Show the times and keep nothing");
  command->add_option("--plot", a->plot, "Write the sweep as a picture to this file (SVG)");
  command->add_option("--json", a->json, "Write the sweep to this file");
  command->footer(
      "The times go to the file that PLUMB_TUNE_CACHE names, or plumb/tune under XDG_CACHE_HOME "
      "or\n"
      "~/.cache. Deleting it undoes all tuning.\n"
      "Examples:\n"
      "  plumb tune --problem mb10000ic1ih86oc4kh7\n"
      "  plumb tune --suite four --math fp32 --plot four.svg");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
