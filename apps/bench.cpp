// plumb bench: how fast algorithms are on this machine, beside another library's and the roofline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "bench_report.hpp"
#include "bench_summary.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "interrupt.hpp"
#include "measured.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"
#include "progress.hpp"
#include "record_file.hpp"
#include "selection.hpp"
#include "stopwatch.hpp"

namespace plumb::app {
namespace {

struct BenchArguments {
  DeviceArguments device = {.name = "auto"};
  std::string algorithm = "auto", math, json, plot;
  ProblemArguments problems;
  std::vector<std::string> peers;
  int samples = MeasureOptions{}.min_samples;
  double seconds = MeasureOptions{}.seconds_limit;
  double limit = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 1;
  bool once = false, packed_filters = false, host_time = false, reproducible = false;
};

/// Other libraries' algorithms on this device, by the libraries' names.
std::vector<const ConvAlgorithm*> peer_algorithms(const Device& device,
                                                  const std::vector<std::string>& names) {
  std::vector<const ConvAlgorithm*> peers;
  for (const std::string& name : names) {
    const std::size_t before = peers.size();
    for (const ConvAlgorithm* algorithm : conv_algorithms(device))
      if (algorithm->name.starts_with(name + ".conv.")) peers.push_back(algorithm);
    if (peers.size() == before)
      throw Error(
          ErrorCode::unsupported,
          fmt::format("--peer: {} has no {}.conv.*; it computes on {}", to_string(device.id()),
                      name, name == "cudnn" ? "a CUDA device" : "the device cpu"));
  }
  return peers;
}

/// The device as it is without those that are there to be measured against alone.
Device ours(const Device& device, const BenchArguments& arguments) {
  if (arguments.peers.empty()) return device;
  return open_device({.name = to_string(device.id()), .providers = arguments.device.providers});
}

/// The device with the algorithms of the peers in its list.
Device with_peers(const BenchArguments& arguments) {
  const Device device = open_device(arguments.device);
  if (arguments.peers.empty()) return device;
  std::vector<std::string> names = arguments.peers;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->provider) names.emplace_back(algorithm->provider->name);
  return open_device(
      {.name = to_string(device.id()), .providers = fmt::format("{}", fmt::join(names, ","))});
}

/// The algorithms of one case: what a plan chooses, or what the pattern names, and the peers.
std::vector<const ConvAlgorithm*> contestants(const Device& device, const ConvProblem& problem,
                                              const BenchArguments& arguments) {
  std::vector<const ConvAlgorithm*> wanted;
  if (arguments.algorithm == "auto") {
    ConvOptions options;
    if (!arguments.math.empty()) options.math = *parse_math(arguments.math);
    options.reproducible = arguments.reproducible;
    wanted.push_back(&ConvPlan(ours(device, arguments), problem, options).algorithm());
  } else {
    wanted = selected_algorithms(device, arguments.algorithm);
  }
  for (const ConvAlgorithm* peer : peer_algorithms(device, arguments.peers))
    if (std::find(wanted.begin(), wanted.end(), peer) == wanted.end()) wanted.push_back(peer);
  std::erase_if(wanted, [&](const ConvAlgorithm* algorithm) {
    return !admits(arguments.math, *algorithm, problem.dtype);
  });
  return wanted;
}

/// Cuts the batch to what memory holds; refused where not one image fits.
Support cut_to_memory(const Device& device, ConvProblem& problem) {
  try {
    problem = fit_to_memory(device, problem);
    return {};
  } catch (const Error& error) {
    if (error.reason() != Reason::too_large) throw;
    return {error.reason(), error.what()};
  }
}

/// Whether the algorithm runs the problem, and the memory for its workspace is there.
Support measurable(const Device& device, const ConvAlgorithm& algorithm,
                   const ConvProblem& problem) {
  const ConvCandidate candidate = ask(algorithm, problem, device.info());
  return candidate.support ? fits_in_memory(device, problem, candidate.workspace_bytes)
                           : candidate.support;
}

BenchCase bench_case(const Device& device, ValidationCase test, const DeviceCeilings& ceilings,
                     const BenchArguments& arguments, const MeasureOptions& options) {
  BenchCase bench{.test = std::move(test)};
  bench.asked_batch = bench.test.problem.n;
  bench.test.problem = check(bench.test.problem);
  if (const Support support = cut_to_memory(device, bench.test.problem); !support) {
    bench.refusals.push_back({arguments.algorithm, support});
    return bench;
  }
  const ConvProblem& problem = bench.test.problem;
  std::vector<ConvPlan> plans;
  for (const ConvAlgorithm* algorithm : contestants(device, problem, arguments)) {
    if (const Support support = measurable(device, *algorithm, problem); !support) {
      bench.refusals.push_back({algorithm->name, support});
      continue;
    }
    const Math math = math_class(algorithm->numerics, problem.dtype);
    // A peer is there to be measured against, in its own order.
    const bool reproducible = arguments.reproducible && !algorithm->provider;
    if (reproducible) {
      const Support bits =
          ask(*algorithm, check(problem), device.info(), false, false, true).support;
      if (!bits) {
        bench.refusals.push_back({algorithm->name, bits});
        continue;
      }
    }
    plans.emplace_back(
        device, problem,
        ConvOptions{
            .math = math, .algorithm = std::string(algorithm->name), .reproducible = reproducible});
    BenchRecord record;
    record.math = math;
    record.reproducible = reproducible;
    record.peer = algorithm->provider != nullptr;
    record.deterministic = algorithm->numerics.deterministic;
    bench.records.push_back(std::move(record));
  }
  const Measurements seen = measure(plans, options);
  bench.buffer_sets = seen.buffer_sets;
  bench.clock_hertz = seen.clock_hertz;
  for (std::size_t i = 0; i < bench.records.size(); ++i) {
    BenchRecord& record = bench.records[i];
    record.measurement = seen.contestants[i];
    if (record.measurement.failure.empty())
      record.roofline_fraction =
          roofline_seconds(ceilings, problem, record.math) / record.measurement.median_seconds;
  }
  compare_with_peers(bench.records);
  return bench;
}

/// Another library's failures are not held against it.
void require_right(const std::vector<BenchCase>& benches) {
  int measured = 0;
  for (const BenchCase& bench : benches)
    for (const BenchRecord& record : bench.records) {
      measured += record.measurement.failure.empty();
      if (!record.peer) app::require_right(bench.test.problem, record.measurement);
    }
  if (measured == 0) throw ValidationFailure("nothing was measured");
}

/// For a profiler: nothing but the contestants' own launches, and no figures.
void run_once(const Device& device, const std::vector<ValidationCase>& cases,
              const BenchArguments& arguments) {
  const MeasureOptions options{.min_samples = 1,
                               .max_samples = 1,
                               .warm_up_seconds = 0,
                               .cold_bytes = 0,
                               .check = false,
                               .packed_filters = arguments.packed_filters,
                               .seed = arguments.seed};
  std::vector<BenchCase> benches;
  for (const ValidationCase& one : cases)
    benches.push_back(bench_case(device, one, {}, arguments, options));
  require_right(benches);
}

std::string title_of(const BenchArguments& arguments, const Device& device) {
  const std::string what =
      arguments.problems.suite.empty() ? "Convolutions" : arguments.problems.suite;
  return fmt::format("{} on {}{}", what, device.info().name,
                     arguments.peers.empty()
                         ? ""
                         : fmt::format(" beside {}", fmt::join(arguments.peers, " and ")));
}

void run(const BenchArguments& arguments) {
  if (!arguments.plot.empty()) require_writable(arguments.plot);
  RecordFile file(arguments.json);
  const Device device = with_peers(arguments);
  const auto cases = selected_cases(arguments.problems, device.id());
  peer_algorithms(device, arguments.peers);
  if (arguments.algorithm != "auto") selected_algorithms(device, arguments.algorithm);
  if (arguments.once) return run_once(device, cases, arguments);
  const MeasureOptions options{.min_samples = arguments.samples,
                               .max_samples = std::max(arguments.samples, 100),
                               .seconds_limit = arguments.seconds,
                               .give_up_factor = 30,
                               .packed_filters = arguments.packed_filters,
                               .host_time = arguments.host_time,
                               .seed = arguments.seed};

  const InterruptScope interrupt;
  const DeviceCeilings ceilings = device.measure_ceilings();
  print_device(device, ceilings);
  std::vector<BenchCase> benches;
  const auto summary_so_far = [&] {
    BenchSummary summary = summary_of(benches);
    summary.left_out = static_cast<int>(cases.size() - benches.size());
    return summary;
  };
  const auto so_far = [&] { return to_json(device, ceilings, options, benches, summary_so_far()); };
  file.update(so_far);
  {
    ProgressBar bar("bench on " + to_string(device.id()), static_cast<std::int64_t>(cases.size()));
    const Stopwatch watch;
    for (const ValidationCase& one : cases) {
      const bool late = !benches.empty() && watch.total() > arguments.limit;
      if (late || interrupt.requested()) break;
      benches.push_back(bench_case(device, one, ceilings, arguments, options));
      bar.show(static_cast<std::int64_t>(benches.size()));
      file.update(so_far);
    }
  }
  for (const BenchCase& bench : benches) print(bench);
  fmt::print("Medians of the {}, taking turns; {}.\n",
             arguments.host_time ? "host's time, waiting for each run" : "device's time",
             arguments.packed_filters
                 ? "filters were packed before, what else changes layouts does so in every run"
                 : "what packs filters or changes layouts does so in every run");
  const bool interrupted = interrupt.requested() && benches.size() < cases.size();
  if (benches.size() < cases.size() && !interrupted)
    fmt::print("{} of {} problems: the limit of {} s was reached, the others are left out.\n",
               benches.size(), cases.size(), arguments.limit);
  const BenchSummary summary = summary_so_far();
  if (benches.size() > 1 || summary.unsteady > 0) fmt::print("\n{}", to_string(summary));
  file.finish(so_far);
  if (!arguments.plot.empty() && !benches.empty())
    write_text(arguments.plot, picture_of(benches, summary, title_of(arguments, device)));
  if (interrupted)
    throw Interrupted(
        fmt::format("interrupted after {} of {} problems", benches.size(), cases.size()));
  require_right(benches);
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "bench", "Time algorithms against each other, another library and the roofline");
  const auto a = std::make_shared<BenchArguments>();
  add_device_option(*command, a->device);
  add_problem_options(*command, a->problems);
  add_direction_option(*command, a->problems);
  add_suite_options(*command, a->problems);
  add_algorithm_option(*command, a->algorithm,
                       "Time the algorithms whose names match this pattern of * and ?, also those "
                       "that run only when named; auto: the one that a plan chooses");
  add_math_option(*command, a->math,
                  "Time only algorithms at least as accurate as this (with auto, fp32 by default)");
  command
      ->add_option("--peer", a->peers, "Also time another library in the same run: cudnn, onednn")
      ->delimiter(',')
      ->check(one_of({"cudnn", "onednn"}));
  add_reproducible(*command, a->reproducible);
  add_integer(*command, "--samples", a->samples, 1,
              "Take at least this many samples of each algorithm")
      ->capture_default_str();
  add_seconds(*command, "--seconds", a->seconds,
              "Stop sampling an algorithm after this many seconds, once it has --samples")
      ->capture_default_str();
  add_seconds(*command, "--limit", a->limit,
              "Begin no problem after this many seconds, and report what was measured");
  command->add_flag("--once", a->once,
                    "Run each algorithm once and report no times: to run under a profiler");
  command->add_flag(
      "--packed-filters", a->packed_filters,
      "Pack filters before the timing, ours and the peer's; otherwise every run packs them");
  command->add_flag("--host-time", a->host_time,
                    "Take the host's time of each run, from the call until it has waited for the "
                    "device, instead of the device's");
  add_seed(*command, a->seed, "Seed of the data");
  command->add_option("--json", a->json, "Also write every time to this file as JSON");
  command->add_option("--plot", a->plot,
                      "Draw the times to this file (SVG): of up to 8 problems every algorithm, of "
                      "more the fastest, by its share of the roofline and its ratio to the peer");
  command->footer(
      "Exit code 1: an algorithm failed or was wrong, or nothing was measured. 130: interrupted; "
      "the\nproblem under way was finished, and what was measured is reported.\nExamples:\n  plumb "
      "bench --suite four --algorithm '*' --json four.json\n  plumb bench --suite resnet50 --dtype "
      "f16 --layout nhwc --peer cudnn\n  plumb bench --suite few200 --math fp32 --peer cudnn "
      "--json few.json --plot few.svg\n  plumb bench --suite few200 --direction backward_weights "
      "--peer cudnn");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
