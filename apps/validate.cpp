// plumb validate: every algorithm of a device against the oracle, on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"
#include "progress.hpp"
#include "record_file.hpp"
#include "reproduce.hpp"
#include "selection.hpp"
#include "stopwatch.hpp"
#include "validate_random.hpp"

namespace plumb::app {
namespace {

struct ValidateArguments {
  DeviceArguments device = {.name = "auto"};
  std::string algorithm = "*", math, json, guard = "both";
  ProblemArguments problems;
  std::vector<std::string> tiers;
  Share share;
  std::uint64_t seed = 1;
  bool quick = false, bias = false, relu = false, accumulate = false, relu_mask = false;
  int threads = 0;
  RandomArguments random;
};

std::vector<ValidationCase> all_cases(const ValidateArguments& arguments, const Device& device) {
  if (!arguments.problems.given())
    return validation_corpus({.seed = arguments.seed,
                              .quick = arguments.quick,
                              .direction = parse_direction(arguments.problems.direction)});
  std::vector<ValidationCase> cases = selected_cases(arguments.problems, device.id());
  for (ValidationCase& one : cases) {
    one.bias = arguments.bias;
    one.activation = arguments.relu ? Activation::relu : Activation::none;
    one.accumulate = arguments.accumulate;
    one.relu_mask = arguments.relu_mask && one.problem.direction != Direction::forward;
    if (one.problem.direction == Direction::backward_weights) one.activation = Activation::none;
  }
  return cases;
}

/// Those of this process's share.
std::vector<ValidationCase> cases_of(const ValidateArguments& arguments, const Device& device) {
  std::vector<ValidationCase> all = all_cases(arguments, device), cases;
  const std::int64_t count = arguments.share.count(std::ssize(all));
  for (std::int64_t i = 0; i < count; ++i)
    cases.push_back(std::move(all[static_cast<std::size_t>(arguments.share.piece(i))]));
  return cases;
}

std::vector<Tier> tiers_of(const ValidateArguments& arguments) {
  std::vector<Tier> tiers;
  for (const Tier tier : all_tiers)
    if (arguments.tiers.empty() || std::find(arguments.tiers.begin(), arguments.tiers.end(),
                                             to_string(tier)) != arguments.tiers.end())
      tiers.push_back(tier);
  return tiers;
}

/// A record with what is needed to run its case again.
struct Verdicts {
  ValidationRecord record;
  std::string reproduce;
};

/// What a table row says about one algorithm.
struct Summary {
  int run = 0, failed = 0;
  std::map<std::string, int> refused;       ///< by reason code
  std::map<std::string, int> failed_tiers;  ///< by name
  std::map<std::string, int> outside;       ///< by name of tier: no promise, so no failure
  std::map<std::string, int> arithmetics;
  double max_error_over_bound = 0;
  int blunt = 0;  ///< runs on which the bound is wider than one tap of the filter
};

void add(Summary& summary, const ValidationRecord& record, Tier first_tier) {
  if (record.verdict == Verdict::unsupported) {
    ++summary.refused[std::string(to_string(record.reason))];
    return;
  }
  summary.run += record.tier == first_tier;
  if (record.verdict == Verdict::fail) {
    ++summary.failed;
    ++summary.failed_tiers[std::string(to_string(record.tier))];
  }
  if (record.verdict == Verdict::outside) ++summary.outside[std::string(to_string(record.tier))];
  summary.blunt += record.max_bound_over_tap > 1;
  summary.max_error_over_bound =
      std::max(summary.max_error_over_bound, record.max_error_over_bound);
  if (record.tier == Tier::attested && record.arithmetic != Arithmetic::unknown)
    ++summary.arithmetics[std::string(to_string(record.arithmetic))];
}

std::string counted(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "-" : text;
}

void print(const std::vector<std::pair<std::string, Summary>>& summaries) {
  std::size_t width = 9;
  for (const auto& [name, summary] : summaries) width = std::max(width, name.size());
  fmt::print("{:<{}}  {:>5}  {:>9}  {:<12}  {:<22}  {}\n", "algorithm", width, "run", "err/bound",
             "failed", "computed in", "refused");
  bool any_outside = false;
  int blunt = 0;
  for (const auto& [name, summary] : summaries) {
    fmt::print("{:<{}}  {:>5}  {:>9.3f}  {:<12}  {:<22}  {}\n", name, width, summary.run,
               summary.max_error_over_bound, counted(summary.failed_tiers),
               counted(summary.arithmetics), counted(summary.refused));
    any_outside = any_outside || !summary.outside.empty();
    blunt += summary.blunt;
  }
  if (blunt > 0)
    fmt::print(
        "\nOn {} runs the bound is wider than one tap: there the exact tier is what finds a "
        "dropped one.\n",
        blunt);
  if (!any_outside) return;
  fmt::print(
      "\nNo promise to hold these to; their errors are over the bound of fp32 FMA. Outside:\n");
  for (const auto& [name, summary] : summaries)
    if (!summary.outside.empty()) fmt::print("{:<{}}  {}\n", name, width, counted(summary.outside));
}

/// The problems that this machine has no memory for, with what they need, for one algorithm each.
void print_too_large(const std::vector<Verdicts>& all) {
  std::map<std::string, const ValidationRecord*> problems;
  for (const Verdicts& one : all)
    if (one.record.reason == Reason::too_large || one.record.reason == Reason::out_of_memory)
      problems.emplace(fmt::format("{} {}", one.record.problem, to_string(one.record.dtype)),
                       &one.record);
  for (const auto& [problem, record] : problems)
    fmt::print("\n{} on {}: {} ({})\n", problem, record->algorithm, record->sentence,
               to_string(record->reason));
}

nlohmann::ordered_json to_json(const Verdicts& verdicts) {
  const ValidationRecord& record = verdicts.record;
  const bool unsupported = record.verdict == Verdict::unsupported;
  nlohmann::ordered_json json = {{"problem", record.problem},
                                 {"name", record.name},
                                 {"dtype", to_string(record.dtype)},
                                 {"layout", to_string(record.placement)},
                                 {"direction", to_string(record.direction)},
                                 {"accumulate", record.accumulate},
                                 {"relu_mask", record.relu_mask},
                                 {"device", record.device},
                                 {"algorithm", record.algorithm},
                                 {"provider", record.provider},
                                 {"tier", unsupported ? "" : to_string(record.tier)},
                                 {"verdict", to_string(record.verdict)},
                                 {"reason", to_string(record.reason)},
                                 {"sentence", record.sentence},
                                 {"max_error_over_bound", record.max_error_over_bound}};
  if (record.tier == Tier::bounded && !unsupported)
    json["max_bound_over_tap"] = record.max_bound_over_tap;
  if (record.tier == Tier::attested && !unsupported)
    json["computed_in"] = to_string(record.arithmetic);
  if (record.verdict == Verdict::fail) json["reproduce"] = verdicts.reproduce;
  return json;
}

nlohmann::ordered_json to_json(const std::string& algorithm, const Summary& summary) {
  return {{"algorithm", algorithm},
          {"run", summary.run},
          {"refused", summary.refused},
          {"failed", summary.failed_tiers},
          {"computed_in", summary.arithmetics},
          {"max_error_over_bound", summary.max_error_over_bound},
          {"bound_wider_than_a_tap", summary.blunt}};
}

/// How far the work has come.
struct Done {
  std::size_t problems = 0, of = 0;
  double seconds = 0;
};

nlohmann::ordered_json to_json(const Device& device, const ValidateArguments& arguments,
                               const Done& done,
                               const std::vector<std::pair<std::string, Summary>>& summaries,
                               const std::vector<Verdicts>& all) {
  nlohmann::ordered_json summary = nlohmann::ordered_json::array();
  for (const auto& [algorithm, one] : summaries) summary.push_back(to_json(algorithm, one));
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  for (const Verdicts& verdicts : all) records.push_back(to_json(verdicts));
  return {{"version", version},
          {"device", to_string(device.id())},
          {"device_name", device.info().name},
          {"seed", arguments.seed},
          {"quick", arguments.quick},
          {"share", to_string(arguments.share)},
          {"seconds", done.seconds},
          {"complete", done.problems == done.of},
          {"problems_done", done.problems},
          {"problems", done.of},
          {"summary", std::move(summary)},
          {"records", std::move(records)}};
}

/// The exact tier alone, unless others are asked for: it is the one that finds a wrong index.
void run_random(const ValidateArguments& arguments, const Device& device,
                std::span<const ConvAlgorithm* const> algorithms) {
  RandomArguments random = arguments.random;
  random.seed = arguments.seed;
  random.share = arguments.share;
  random.tiers = arguments.tiers.empty() ? std::vector{Tier::exact} : tiers_of(arguments);
  random.direction = parse_direction(arguments.problems.direction);
  random.math = arguments.math;
  random.json = arguments.json;
  validate_random(device, algorithms, random);
}

void run(const ValidateArguments& arguments) {
  RecordFile file(arguments.json);
  const Device device = open_device(arguments.device);
  const auto algorithms = selected_algorithms(device, arguments.algorithm);
  if (arguments.random.count >= 0) return run_random(arguments, device, algorithms);
  const auto cases = cases_of(arguments, device);
  const ValidationOptions options{.seed = arguments.seed,
                                  .tiers = tiers_of(arguments),
                                  .guard = *parse_guard_pages(arguments.guard),
                                  .threads = arguments.threads};
  Validator validator(device);
  CrashReport crash_report;

  Stopwatch stopwatch;
  std::vector<std::pair<std::string, Summary>> summaries;
  for (const ConvAlgorithm* algorithm : algorithms)
    summaries.emplace_back(algorithm->name, Summary{});
  std::vector<Verdicts> all;
  Done done{.of = cases.size()};
  const InterruptScope interrupt;
  const auto so_far = [&] {
    done.seconds = stopwatch.total();
    return to_json(device, arguments, done, summaries, all);
  };
  file.update(so_far);
  {
    ProgressBar bar("validate on " + to_string(device.id()),
                    static_cast<std::int64_t>(cases.size()));
    for (std::size_t i = 0; i < cases.size() && !interrupt.requested(); ++i) {
      std::vector<const ConvAlgorithm*> admitted;
      for (const ConvAlgorithm* algorithm : algorithms)
        if (admits(arguments.math, *algorithm, cases[i].problem.dtype))
          admitted.push_back(algorithm);
      for (ValidationRecord& record :
           validator(admitted, cases[i], reported(crash_report, device, cases[i], options))) {
        const auto at = std::find_if(summaries.begin(), summaries.end(), [&](const auto& summary) {
          return summary.first == record.algorithm;
        });
        add(at->second, record, options.tiers.front());
        std::string again;
        if (record.verdict == Verdict::fail)
          again = reproduce(device, record.algorithm, cases[i], options);
        all.push_back({std::move(record), std::move(again)});
      }
      done.problems = i + 1;
      bar.show(static_cast<std::int64_t>(done.problems));
      file.update(so_far);
    }
  }
  done.seconds = stopwatch.total();

  print(summaries);
  print_too_large(all);
  int validated = 0, failed = 0;
  for (const auto& [name, summary] : summaries) {
    validated += summary.run;
    failed += summary.failed;
  }
  for (const Verdicts& verdicts : all)
    if (verdicts.record.verdict == Verdict::fail)
      fmt::print("\n{} failed: {}\n  {}\n", to_string(verdicts.record.tier),
                 verdicts.record.sentence, verdicts.reproduce);
  fmt::print("\n{} on {}: {} problems, {} algorithms, {} runs validated, {} failures, {:.1f} s\n",
             to_string(device.id()), device.info().name, done.problems, algorithms.size(),
             validated, failed, done.seconds);
  file.finish(so_far);
  if (done.problems < done.of)
    throw Interrupted(fmt::format("interrupted after {} of {} problems", done.problems, done.of));
  if (failed > 0) throw ValidationFailure(fmt::format("{} verdicts are failures", failed));
  if (validated == 0) throw ValidationFailure("nothing was validated");
}

}  // namespace

void add_validate(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "validate", "Check every algorithm of a device against an oracle in double precision");
  const auto a = std::make_shared<ValidateArguments>();
  add_device_option(*command, a->device);
  add_algorithm_option(*command, a->algorithm,
                       "Check only the algorithms whose names match this pattern of * and ?");
  add_problem_options(*command, a->problems);
  add_direction_option(*command, a->problems);
  add_view_options(*command, a->problems);
  add_suite_options(*command, a->problems);
  command->add_flag("--bias", a->bias, "Add a bias in the given problems");
  command->add_flag("--relu", a->relu, "Apply a ReLU at the end of the given problems");
  command->add_flag("--accumulate", a->accumulate,
                    "Add the given problems' convolutions to what y holds");
  command->add_flag("--relu-mask", a->relu_mask,
                    "In the given problems' gradients let dy count only where a ReLU's output is "
                    "above 0");
  add_math_option(*command, a->math,
                  "Check only algorithms that are at least as accurate as this arithmetic");
  command
      ->add_option("--tier", a->tiers,
                   "Run only these tiers of checks: exact, bounded, repeatable, attested, "
                   "reproducible")
      ->delimiter(',')
      ->check(one_of({"exact", "bounded", "repeatable", "attested", "reproducible"}));
  add_seed(*command, a->seed, "Seed of the data and of the random problems");
  add_share(*command, a->share,
            "Check only every OF-th problem, beginning with number PART, so that OF processes "
            "share the work");
  command->add_flag("--quick", a->quick, "Check a smaller set of problems");
  command
      ->add_option("--guard", a->guard,
                   "Where to put inaccessible pages, which catch accesses out of bounds, in host "
                   "memory: behind tensors, before them, both (by turns) or none")
      ->check(one_of({"behind", "before", "both", "none"}))
      ->capture_default_str();
  add_integer(*command, "--threads", a->threads, 1, "Number of OpenMP threads of the CPU's kernels",
              1024);
  auto* const random = add_integer(*command, "--random", a->random.count, 1,
                                   "Check this many random problems, drawn with --seed");
  for (const char* other : {"--problem", "--problems", "--suite"})
    random->excludes(command->get_option(other));
  command
      ->add_option("--seconds", a->random.seconds,
                   "Begin no random problem after this many seconds")
      ->check(number_in(1e-3, 1e9))
      ->needs(random);
  add_integer(*command, "--failures", a->random.failures, 1,
              "Begin no random problem after this many failures")
      ->needs(random);
  command
      ->add_option("--products", a->random.products,
                   "Draw only random problems of at most this many multiplications")
      ->check(number_in(1e3, 1e12))
      ->needs(random);
  command->add_option("--json", a->json,
                      "Also write every verdict to this file as JSON, kept up to date");
  command->footer(
      "Exit code 1: something failed, or nothing was checked. 130: interrupted; what was checked "
      "by then\nis reported.\nExamples:\n  plumb validate --quick\n  plumb validate --random 36000 "
      "--seed 7\n  plumb validate --device cuda --algorithm 'cuda.conv.direct.*' --json "
      "verdicts.json");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
