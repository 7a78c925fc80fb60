// plumb tune: times what can run, and keeps the times for later plans.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "bench_report.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "plot/bar_chart.hpp"
#include "plumb/plumb.hpp"
#include "progress.hpp"
#include "record_file.hpp"
#include "selection.hpp"

namespace plumb::app {
namespace {

struct TuneArguments {
  DeviceArguments device = {.name = "auto"};
  std::string math, plot, json;
  ProblemArguments problems;
  int samples = MeasureOptions{}.min_samples;
  double scatter_limit = MeasureOptions{}.scatter_limit;
  double estimate_limit = MeasureOptions{}.estimate_limit;
  bool no_cache = false;
};

struct Tuned {
  std::string name;  ///< of the problem, or its text
  TuneResult result;
  Support support = {};  ///< why nothing was timed, and then there are no algorithms
};

/// Whether it was timed and did not fail.
bool has_time(const TunedAlgorithm& one) { return one.support && one.measurement.failure.empty(); }

bool is_unsteady(const TunedAlgorithm& one) {
  return has_time(one) && !one.measurement.unsteady.empty();
}

const TunedAlgorithm* fastest(const TuneResult& result) {
  const TunedAlgorithm* best = nullptr;
  for (const TunedAlgorithm& one : result.algorithms)
    if (has_time(one) && !is_unsteady(one) &&
        (!best || one.measurement.median_seconds < best->measurement.median_seconds))
      best = &one;
  return best;
}

std::string remark(const TunedAlgorithm& one, const TunedAlgorithm* best) {
  if (is_unsteady(one)) return "unsteady, not kept: " + one.measurement.unsteady;
  return &one == best ? "fastest" : one.measurement.given_up ? "given up" : "";
}

void print(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  fmt::print("{}  {}\n", tuned.name, to_string(result.problem.dtype));
  if (!tuned.support) {
    fmt::print("  not run: {} ({})\n\n", tuned.support.sentence, to_string(tuned.support.reason));
    return;
  }
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
               remark(one, best));
  }
  fmt::print("\n");
}

int unsteady_times(const std::vector<Tuned>& all) {
  int count = 0;
  for (const Tuned& tuned : all)
    count += static_cast<int>(
        std::count_if(tuned.result.algorithms.begin(), tuned.result.algorithms.end(), is_unsteady));
  return count;
}

/// What was not kept, and what that means.
void print_unsteady(const std::vector<Tuned>& all) {
  const int count = unsteady_times(all);
  if (count == 0) return;
  fmt::print(
      "{} times are unsteady after {} tries and not kept: something else keeps the device or the "
      "cores busy.\nPlans that may take those algorithms go on by estimates. On a CPU, "
      "OMP_WAIT_POLICY=passive helps.\n",
      count, MeasureOptions{}.tries);
}

/// The sweep as bars: a panel for each problem, a bar for each algorithm that ran in any of them.
BarChart chart_of(const std::vector<Tuned>& all, const Device& device) {
  BarChart chart{.title = fmt::format("Tuning on {}", device.info().name),
                 .axis = "median of the device's time, ms"};
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    const auto timed = [&](const TunedAlgorithm& one) {
      return one.algorithm == algorithm->name && has_time(one);
    };
    if (std::any_of(all.begin(), all.end(), [&](const Tuned& tuned) {
          return std::any_of(tuned.result.algorithms.begin(), tuned.result.algorithms.end(), timed);
        }))
      chart.categories.emplace_back(algorithm->name);
  }
  const auto series_of = [&](Math math) {
    const std::string name(to_string(math));
    const auto found = std::find(chart.series.begin(), chart.series.end(), name);
    const auto index = static_cast<std::size_t>(found - chart.series.begin());
    if (found == chart.series.end()) chart.series.push_back(name);
    return index;
  };
  for (const Tuned& tuned : all) {
    if (!tuned.support) continue;
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
      if (is_unsteady(one)) bar.note = "unsteady";
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
                   {"given_up", one.measurement.given_up},
                   {"tries", one.measurement.tries},
                   {"unsteady", one.measurement.unsteady}});
    algorithms.push_back(std::move(json));
  }
  return {{"problem", to_string(tuned.result.problem)},
          {"name", tuned.name},
          {"direction", to_string(tuned.result.problem.direction)},
          {"dtype", to_string(tuned.result.problem.dtype)},
          {"reason", to_string(tuned.support.reason)},
          {"sentence", tuned.support.sentence},
          {"sm_clock_mhz", tuned.result.measurements.clock_hertz * 1e-6},
          {"algorithms", std::move(algorithms)}};
}

nlohmann::ordered_json to_json(const Device& device, const std::vector<Tuned>& all,
                               std::size_t wanted) {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const Tuned& tuned : all) problems.push_back(to_json(tuned));
  return {{"version", version},
          {"date", timestamp()},
          {"device", to_string(device.id())},
          {"device_name", device.info().name},
          {"driver_version", device.info().driver_version},
          {"cache", all.empty() ? "" : all.back().result.cache_path},
          {"complete", all.size() == wanted},
          {"unsteady", unsteady_times(all)},
          {"problems", std::move(problems)}};
}

/// Why times that are steady are not in the cache, or none is there at all; empty where all is
/// well.
std::string cache_trouble(const std::vector<Tuned>& all) {
  bool kept = false;
  std::string trouble;
  for (const Tuned& tuned : all) {
    if (!tuned.support) continue;
    const TuneResult& result = tuned.result;
    kept = kept || !result.cache_path.empty();
    const bool steady =
        std::any_of(result.algorithms.begin(), result.algorithms.end(),
                    [](const TunedAlgorithm& one) { return one.support && !is_unsteady(one); });
    if (result.cache_path.empty() && steady) return result.cache_sentence;
    if (result.cache_path.empty()) trouble = result.cache_sentence;
  }
  return kept ? "" : trouble;
}

/// Where the times are, and what was wrong there.
void print_cache(const TuneArguments& arguments, const Device& device,
                 const std::vector<Tuned>& all) {
  if (arguments.no_cache) {
    fmt::print("cache  not written (--no-cache)\n");
    return;
  }
  std::set<std::string> remarks;
  for (const Tuned& tuned : all)
    if (!tuned.result.cache_sentence.empty()) remarks.insert(tuned.result.cache_sentence);
  const TuneCacheReport report = tune_cache_report(device);
  fmt::print("cache  {}: {} problems tuned on this device\n", shown_path(report.path),
             report.problems);
  for (const std::string& remark : remarks) fmt::print("       {}\n", remark);
}

/// Times one problem, or says why not.
Tuned tuned(const Device& device, const ValidationCase& one, const TuneOptions& options) {
  const std::string name = one.name.empty() ? to_string(one.problem) : one.name;
  if (const Support support = fits_in_memory(device, one.problem); !support)
    return {name, {.problem = check(one.problem)}, support};
  return {name, tune(device, one.problem, options)};
}

void run(const TuneArguments& arguments) {
  if (!arguments.plot.empty()) require_writable(arguments.plot);
  RecordFile file(arguments.json);
  const Device device = open_device(arguments.device);
  TuneOptions options;
  if (!arguments.math.empty()) options.math = parse_math(arguments.math);
  options.measure.min_samples = arguments.samples;
  options.measure.max_samples = std::max(options.measure.max_samples, arguments.samples);
  options.measure.scatter_limit = arguments.scatter_limit;
  options.measure.estimate_limit = arguments.estimate_limit;
  options.write = !arguments.no_cache;
  const auto cases = selected_cases(arguments.problems, device.id());
  std::vector<Tuned> all;
  const InterruptScope interrupt;
  const auto so_far = [&] { return to_json(device, all, cases.size()); };
  file.update(so_far);
  {
    ProgressBar bar("tune on " + to_string(device.id()), static_cast<std::int64_t>(cases.size()));
    for (const ValidationCase& one : cases) {
      if (interrupt.requested()) break;
      all.push_back(tuned(device, one, options));
      bar.show(static_cast<std::int64_t>(all.size()));
      file.update(so_far);
    }
  }
  for (const Tuned& one : all) print(one);
  print_unsteady(all);
  if (!arguments.plot.empty() && !all.empty())
    write_text(arguments.plot, to_svg(chart_of(all, device)));
  file.finish(so_far);
  const std::string trouble = arguments.no_cache ? "" : cache_trouble(all);
  if (trouble.empty()) print_cache(arguments, device, all);
  if (all.size() < cases.size())
    throw Interrupted(fmt::format("interrupted after {} of {} problems", all.size(), cases.size()));
  if (std::none_of(all.begin(), all.end(), [](const Tuned& one) { return bool{one.support}; }))
    throw Error(ErrorCode::unsupported, "no problem was timed: " + all.front().support.sentence,
                all.front().support.reason);
  if (!trouble.empty()) throw FileError("the times are not kept: " + trouble);
}

}  // namespace

void add_tune(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "tune", "Time all algorithms that can run a problem, so that later plans take the fastest");
  const auto a = std::make_shared<TuneArguments>();
  add_device_option(*command, a->device);
  add_problem_options(*command, a->problems);
  add_direction_option(*command, a->problems);
  add_suite_options(*command, a->problems);
  add_math_option(
      *command, a->math,
      "Time only algorithms at least as accurate as this, for plans that allow nothing less");
  add_integer(*command, "--samples", a->samples, 1,
              "Take at least this many samples of each algorithm that is not given up as slow")
      ->capture_default_str();
  command
      ->add_option(
          "--scatter-limit", a->scatter_limit,
          "Call a time unsteady where the median exceeds the minimum by more than this fraction of "
          "it; unsteady times are measured again, and not kept if they stay so")
      ->check(number_in(0, 1e300))
      ->capture_default_str();
  command
      ->add_option(
          "--estimate-limit", a->estimate_limit,
          "Also call a time unsteady where it exceeds the algorithm's estimate by this factor")
      ->check(number_in(0, 1e300))
      ->capture_default_str();
  command->add_flag("--no-cache", a->no_cache,
                    "Show the times, but do not write them to the cache");
  command->add_option("--plot", a->plot, "Draw the times of all algorithms to this file (SVG)");
  command->add_option("--json", a->json, "Also write the times to this file as JSON");
  command->footer(
      "The times go to the file that PLUMB_TUNE_CACHE names, or to plumb/tune under XDG_CACHE_HOME "
      "or\n"
      "~/.cache. Deleting that file undoes all tuning. Ctrl-C ends the tuning after the problem "
      "under\n"
      "way, with exit code 130 and what was done; a second Ctrl-C ends it at once.\n"
      "Examples:\n"
      "  plumb tune --problem mb10000ic1ih86oc4kh7\n"
      "  plumb tune --suite four --math fp32 --plot four.svg");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
