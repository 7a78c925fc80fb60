// plumb explain: what every algorithm says to a problem, and which one a plan would take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "commands.hpp"
#include "json_file.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"
#include "selection.hpp"
#include "terminal.hpp"

namespace plumb::app {
namespace {

struct ExplainArguments {
  DeviceArguments device;
  std::string math = "fp32", algorithm, json;
  ProblemArguments problems;
  std::int64_t workspace_limit = -1;  ///< bytes; below 0: none
  bool deterministic = false, accumulate = false, relu_mask = false, reproducible = false;
};

struct Explained {
  ValidationCase problem;
  std::vector<ConvCandidate> candidates;
  std::string tuning;  ///< why there are no measured times; empty where there are some
};

ConvOptions options_of(const ExplainArguments& arguments) {
  ConvOptions options{.math = *parse_math(arguments.math),
                      .algorithm = arguments.algorithm,
                      .deterministic = arguments.deterministic,
                      .accumulate = arguments.accumulate,
                      .relu_mask = arguments.relu_mask,
                      .reproducible = arguments.reproducible};
  if (arguments.workspace_limit >= 0)
    options.workspace_limit_bytes = static_cast<std::size_t>(arguments.workspace_limit);
  return options;
}

std::string milliseconds(double seconds) {
  if (std::isinf(seconds)) return "failed";  // so the cache has it of what failed when it was tuned
  return fmt::format("{:.4g}", seconds * 1e3);
}

/// What the problem asks for that not every kernel does by itself.
struct Extras {
  bool boundary, depth, accumulate, pool, gradient;
  explicit Extras(const ConvProblem& problem, bool accumulate_)
      : boundary(problem.boundary != Boundaries{}),
        depth(problem.has_depth()),
        accumulate(accumulate_),
        pool(problem.pool != Pool::none),
        gradient(problem.direction != Direction::forward) {}
  bool any() const { return boundary || depth || accumulate || pool || gradient; }
};

/// How an algorithm comes by the extras, in the words that print_legend() explains.
std::string how(const ConvCandidate& one, const Extras& extras) {
  std::vector<std::string_view> passes;
  const std::string forward = fmt::format("by {} forward", one.forward_convolutions);
  if (one.forward_convolutions > 0) passes.push_back(forward);
  if (one.copies_input) passes.push_back("copies x");
  if (extras.accumulate && !one.accumulate_fused) passes.push_back("adds after");
  if (extras.pool && !one.pool_fused) passes.push_back("pools after");
  return passes.empty() ? "itself" : fmt::format("{}", fmt::join(passes, ", "));
}

/// The most that an algorithm promises of its bits, in the words that the footer explains.
std::string bits(const ConvCandidate& one) {
  if (one.reproducible) return "spec";
  if (one.invariant) return "image";
  return one.deterministic ? "run" : "vary";
}

/// The columns of one algorithm, after its name.
std::vector<std::string> figures(const ConvCandidate& one, const Extras& extras) {
  // What passed over has no algorithm, and what refuses for itself has no figures.
  const bool has_figures = one.estimate_seconds > 0;
  const bool is_algorithm = has_figures || one.algorithm.find('.') != std::string_view::npos;
  return {
      is_algorithm ? std::string(to_string(one.error_class)) : "",
      is_algorithm ? bits(one) : "",
      has_figures ? milliseconds(one.estimate_seconds) : "-",
      one.measured_seconds ? milliseconds(*one.measured_seconds) : "-",
      has_figures ? fmt::format("{:.4g}", static_cast<double>(one.workspace_bytes) * 1e-6) : "-",
      one.support ? (one.chosen ? "chosen" : "yes") : std::string(to_string(one.support.reason)),
      has_figures && extras.any() ? how(one, extras) : ""};
}

/// A row for each algorithm, or two where the terminal is too narrow for its name and figures, or
/// three where it is too narrow for how it comes by the extras as well.
void print_table(const std::vector<ConvCandidate>& candidates, const Extras& extras,
                 std::size_t width) {
  constexpr std::size_t indent = 2, numbers = 43, longest_how = sizeof "copies x, pools after" - 1;
  std::size_t name_width = sizeof "algorithm" - 1, reason_width = sizeof "can run";
  for (const ConvCandidate& one : candidates) {
    name_width = std::max(name_width, one.algorithm.size());
    reason_width = std::max(reason_width, to_string(one.support.reason).size() + 1);
  }
  const std::size_t figure_columns =
      numbers + (extras.any() ? reason_width + 1 + longest_how : reason_width - 1);
  const bool fits = indent + name_width + figure_columns <= width;
  const bool how_fits = indent + figure_columns <= width;
  const auto row = [&](char mark, std::string_view name, const std::vector<std::string>& cells) {
    fmt::print("{} {:<{}}", mark, name, fits ? name_width : 0);
    if (!fits) fmt::print("\n  ");
    fmt::print("  {:<4} {:<5} {:>9} {:>9} {:>8}  ", cells[0], cells[1], cells[2], cells[3],
               cells[4]);
    if (cells[6].empty())
      fmt::print("{}\n", cells[5]);
    else if (how_fits)
      fmt::print("{:<{}} {}\n", cells[5], reason_width, cells[6]);
    else
      fmt::print("{}\n      {}\n", cells[5], cells[6]);
  };
  row(' ', "algorithm",
      {"math", "bits", "guess ms", "tuned ms", "work MB", "can run", extras.any() ? "how" : ""});
  for (const ConvCandidate& one : candidates)
    row(one.chosen ? '>' : ' ', one.algorithm, figures(one, extras));
}

/// The words of the last column that have been used.
void print_legend(const std::vector<ConvCandidate>& candidates, const Extras& extras,
                  std::size_t width) {
  if (!extras.any()) return;
  std::string all;
  for (const ConvCandidate& one : candidates)
    if (one.estimate_seconds > 0) all += how(one, extras) + "\n";
  std::vector<std::string_view> asked;
  if (extras.boundary) asked.push_back("boundary");
  if (extras.depth) asked.push_back("depth");
  if (extras.accumulate) asked.push_back("sum with y");
  if (extras.pool) asked.push_back("pooling");
  const auto explain = [&](std::string_view word, const std::string& meaning) {
    if (all.find(word) != std::string::npos)
      fmt::print("{}", wrapped(fmt::format("{}: {}", word, meaning), width, 0, 2));
  };
  fmt::print("\n");
  if (extras.gradient) asked.push_back("gradient");
  explain("itself", fmt::format("the kernel does all of it, the {} too, in one pass",
                                fmt::join(asked, ", ")));
  explain(
      "copies x",
      extras.depth
          ? "the kernel knows images of two axes, or zeros beyond their edges, so x is first "
            "copied into workspace: with its padding around it, or the planes that a filter sees "
            "side by side as channels"
          : "the kernel knows zeros beyond the edges, so x is first copied into workspace, with "
            "what its boundary shows around it");
  explain("by",
          "the gradient is so many forward convolutions of this algorithm: of dy with the "
          "filters turned round, one for each phase of the strides or one whose filters are all "
          "phases, or of x with dy as the filters, one for each group");
  explain("adds after", "the kernel writes into workspace, and a second pass adds that to y");
  explain("pools after", "the kernel writes into workspace, and a second pass pools that into y");
}

/// Whose the algorithms of other libraries are.
void print_providers(const std::vector<ConvCandidate>& candidates, const Device& device,
                     std::size_t width) {
  std::string_view before;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (!algorithm->provider || algorithm->provider->name == before) continue;
    before = algorithm->provider->name;
    const LibraryReport found = algorithm->provider->library();
    const bool chosen = std::any_of(candidates.begin(), candidates.end(), [&](const auto& one) {
      return one.chosen && one.provider == before;
    });
    if (found.reason == Reason::none)
      fmt::print("\n{}", wrapped(fmt::format("{}.*: kernels of {}, {}{}", before, found.version,
                                             found.path, chosen ? "; chosen" : ""),
                                 width, 0, 2));
  }
}

/// Each refusal once, with those that it is of.
void print_refusals(const std::vector<ConvCandidate>& candidates, std::size_t width) {
  std::vector<const ConvCandidate*> left;
  for (const ConvCandidate& one : candidates)
    if (!one.support) left.push_back(&one);
  while (!left.empty()) {
    const Support& support = left.front()->support;
    const auto alike = [&](const ConvCandidate* one) {
      return one->support.reason == support.reason && one->support.sentence == support.sentence;
    };
    const auto rest = std::stable_partition(left.begin(), left.end(), alike);
    std::vector<std::string_view> names;
    for (auto one = left.begin(); one != rest; ++one) names.push_back((*one)->algorithm);
    fmt::print("\n{}", wrapped(fmt::format("{}: {}", to_string(support.reason), support.sentence),
                               width, 0, 2));
    fmt::print("{}",
               wrapped(fmt::format("To change it: {}.", remedy(support.reason)), width, 2, 2));
    fmt::print("{}", wrapped(fmt::format("{}", fmt::join(names, ", ")), width, 2, 2));
    left.erase(left.begin(), rest);
  }
}

void print(const Explained& explained, const Device& device, bool accumulate) {
  const std::size_t width = terminal_columns();
  const ValidationCase& test = explained.problem;
  const std::string text = to_string(test.problem);
  if (!test.name.empty() && test.name != text) fmt::print("{}  ", test.name);
  fmt::print("{}  {} {}  on {}\n\n", text, to_string(test.problem.dtype), to_string(test.placement),
             to_string(device.id()));
  const Extras extras(test.problem, accumulate);
  print_table(explained.candidates, extras, width);
  print_legend(explained.candidates, extras, width);
  if (std::none_of(explained.candidates.begin(), explained.candidates.end(),
                   [](const ConvCandidate& one) { return one.chosen; }))
    fmt::print("\nNothing can run it.\n");
  if (!explained.tuning.empty())
    fmt::print("\n{}", wrapped("No tuned times: " + explained.tuning + ".", width, 0, 0));
  print_providers(explained.candidates, device, width);
  print_refusals(explained.candidates, width);
  fmt::print("\n");
}

nlohmann::ordered_json to_json(const ConvCandidate& one) {
  nlohmann::ordered_json json = {{"algorithm", one.algorithm},
                                 {"provider", one.provider},
                                 {"chosen", one.chosen},
                                 {"eligible", static_cast<bool>(one.support)},
                                 {"reason", to_string(one.support.reason)},
                                 {"sentence", one.support.sentence},
                                 {"remedy", one.support ? "" : remedy(one.support.reason)},
                                 {"math", to_string(one.error_class)},
                                 {"deterministic", one.deterministic},
                                 {"reproducible", one.reproducible},
                                 {"invariant", one.invariant},
                                 {"copies_input", one.copies_input},
                                 {"accumulate_fused", one.accumulate_fused},
                                 {"forward_convolutions", one.forward_convolutions},
                                 {"pool_fused", one.pool_fused}};
  json["estimate_seconds"] = nullptr;
  json["measured_seconds"] =
      nullptr;  // and where it failed when it was tuned: JSON has no infinity
  json["workspace_bytes"] = nullptr;
  if (one.estimate_seconds > 0) {
    json["estimate_seconds"] = one.estimate_seconds;
    json["workspace_bytes"] = one.workspace_bytes;
  }
  if (one.measured_seconds && !std::isinf(*one.measured_seconds))
    json["measured_seconds"] = *one.measured_seconds;
  return json;
}

nlohmann::ordered_json to_json(const Explained& explained) {
  nlohmann::ordered_json algorithms = nlohmann::ordered_json::array();
  nlohmann::ordered_json chosen;  // null where nothing can run
  for (const ConvCandidate& one : explained.candidates) {
    algorithms.push_back(to_json(one));
    if (one.chosen) chosen = one.algorithm;
  }
  const ValidationCase& test = explained.problem;
  return {{"problem", to_string(test.problem)},
          {"name", test.name},
          {"direction", to_string(test.problem.direction)},
          {"dtype", to_string(test.problem.dtype)},
          {"layout", to_string(test.placement)},
          {"chosen", std::move(chosen)},
          {"tuning", explained.tuning},
          {"algorithms", std::move(algorithms)}};
}

void run(const ExplainArguments& arguments) {
  if (!arguments.json.empty()) require_writable(arguments.json);
  const Device device = open_device(arguments.device);
  const ConvOptions options = options_of(arguments);
  if (!options.algorithm.empty()) selected_algorithms(device, options.algorithm);  // it is there
  std::vector<Explained> all;
  for (ValidationCase& test : selected_cases(arguments.problems, device.id()))
    all.push_back({.problem = test,
                   .candidates = explain(device, test.problem, options),
                   .tuning = tuned_times(device, test.problem).sentence});
  for (const Explained& one : all) print(one, device, arguments.accumulate);

  if (arguments.json.empty()) return;
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const Explained& one : all) problems.push_back(to_json(one));
  write_json(arguments.json, {{"version", version},
                              {"device", to_string(device.id())},
                              {"device_name", device.info().name},
                              {"auto_why", device.why()},
                              {"math", arguments.math},
                              {"reproducible", arguments.reproducible},
                              {"problems", std::move(problems)}});
}

}  // namespace

void add_explain(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "explain",
      "Say which algorithms can run a problem, which one is chosen, and why not the others");
  const auto a = std::make_shared<ExplainArguments>();
  add_device_option(*command, a->device);
  add_problem_options(*command, a->problems);
  add_direction_option(*command, a->problems);
  add_view_options(*command, a->problems);
  add_suite_options(*command, a->problems);
  add_math_option(*command, a->math, "Least accurate arithmetic allowed");
  command->add_option("--algorithm", a->algorithm, "Explain the choice with this algorithm forced");
  add_integer(*command, "--workspace-limit", a->workspace_limit, 0,
              "Allow an algorithm at most this many bytes of workspace");
  command->add_flag("--deterministic", a->deterministic,
                    "Allow only algorithms that give the same bits in every run");
  add_reproducible(*command, a->reproducible);
  command->add_flag("--accumulate", a->accumulate,
                    "Explain a convolution that is added to what y holds");
  command->add_flag("--relu-mask", a->relu_mask,
                    "Explain a gradient in which dy counts only where a ReLU's output is above 0");
  command->add_option("--json", a->json, "Also write the explanation to this file as JSON");
  command->footer(
      "> marks the algorithm that a plan would take. guess is the algorithm's own estimate of "
      "its\ntime, work is its workspace. docs/reasons.md has the reason codes. how says whether "
      "the "
      "kernel\nknows the boundary, the depth, the sum or the pooling itself.\nExample:\n  plumb "
      "explain --problem mb128ic64ih56oc64kh3ph1 --math tf32");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
