// Problems and algorithms from the command line.
#include "selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"

namespace plumb::app {
namespace {

/// As large as the work is worth on the kind of device.
std::int64_t suite_batch(std::string_view suite, const DeviceId& device) {
  const bool cpu = device == host;
  return suite == "resnet50" ? (cpu ? 8 : 128) : (cpu ? 500 : 10000);
}

std::vector<NamedProblem> named_problems(const ProblemArguments& arguments,
                                         const DeviceId& device) {
  if (!arguments.problem.empty()) return {parse_problem(arguments.problem)};
  if (!arguments.suite.empty())
    return suite(arguments.suite,
                 arguments.batch > 0 ? arguments.batch : suite_batch(arguments.suite, device));
  const Bytes text = read_file(arguments.problems);
  return parse_problems({reinterpret_cast<const char*>(text.data()), text.size()});
}

}  // namespace

void add_problem_options(CLI::App& command, ProblemArguments& arguments) {
  auto* problem = command.add_option("--problem", arguments.problem,
                                     "One problem, in benchdnn's notation: mb2ic3ih32oc8kh3ph1");
  command
      .add_option("--problems", arguments.problems,
                  "A file of problems, one a line, # for comments")
      ->excludes(problem);
  command
      .add_option("--dtype", arguments.dtype, "Stored type of given problems: f32, f64, f16, bf16")
      ->check(CLI::IsMember({"f32", "f64", "f16", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--layout", arguments.layout,
                  "Of given problems: nchw, nhwc, or strided (NCHW with gaps)")
      ->check(CLI::IsMember({"nchw", "nhwc", "strided"}))
      ->capture_default_str();
}

void add_suite_options(CLI::App& command, ProblemArguments& arguments) {
  const std::vector<std::string> names(std::begin(suite_names), std::end(suite_names));
  auto* suite_option = command
                           .add_option("--suite", arguments.suite,
                                       fmt::format("Layers by name: {}", fmt::join(names, ", ")))
                           ->check(CLI::IsMember(names));
  command
      .add_option("--batch", arguments.batch,
                  "N of the suite; otherwise 10000 (four) or 128 (resnet50), on a CPU 500 or 8")
      ->check(at_least(1))
      ->needs(suite_option);
  for (const char* other : {"--problem", "--problems"})
    suite_option->excludes(command.get_option(other));
}

void add_algorithm_option(CLI::App& command, std::string& pattern, const std::string& help) {
  command.add_option("--algorithm", pattern, help)->capture_default_str();
}

void add_math_option(CLI::App& command, std::string& math, const std::string& help) {
  command.add_option("--math", math, help + ": fp64, fp32, tf32, bf16, fp16")
      ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16", "fp16"}));
}

std::vector<ValidationCase> selected_cases(const ProblemArguments& arguments,
                                           const DeviceId& device) {
  if (!arguments.given()) throw UsageError("--problem, --problems or --suite: one is required");
  std::vector<ValidationCase> cases;
  for (NamedProblem& one : named_problems(arguments, device)) {
    one.problem.dtype = *parse_dtype(arguments.dtype);
    cases.push_back(validation_case(one.name, one.problem, *parse_placement(arguments.layout)));
  }
  if (cases.empty()) throw FileError(fmt::format("{}: holds no problem", arguments.problems));
  return cases;
}

std::vector<const ConvAlgorithm*> selected_algorithms(const Device& device,
                                                      const std::string& pattern) {
  std::vector<const ConvAlgorithm*> selected;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (fnmatch(pattern.c_str(), std::string(algorithm->name).c_str(), 0) == 0)
      selected.push_back(algorithm);
  if (selected.empty())
    throw UsageError(
        fmt::format("--algorithm: nothing of {} matches '{}'", to_string(device.id()), pattern));
  return selected;
}

bool admits(const std::string& math, const ConvAlgorithm& algorithm, DType dtype) {
  return math.empty() || allows(*parse_math(math), math_class(algorithm.numerics, dtype));
}

}  // namespace plumb::app
