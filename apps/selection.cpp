// Problems and algorithms from the command line.
#include "selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <limits>

#include "axes.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "formats/file.hpp"
#include "options.hpp"

namespace plumb::app {
namespace {

constexpr std::uint64_t longest_list_bytes = std::uint64_t{16} << 20;  // of problems

/// A suite's own batches are what a GPU is worth; a CPU gets a share of them.
std::int64_t batch_on(const DeviceId& device, std::string_view suite, std::int64_t own) {
  // Of the special ones some are so for being few.
  if (device != host || (suite == "few_special" && own < 100)) return own;
  const std::int64_t share = suite == "four"                          ? 20
                             : suite == "resnet50" || suite == "wide" ? 16
                                                                      : 100;
  return std::max<std::int64_t>(1, own / share);
}

std::vector<NamedProblem> problems_asked_for(const ProblemArguments& arguments,
                                             const DeviceId& device) {
  if (!arguments.problem.empty()) return {parse_problem(arguments.problem)};
  if (!arguments.suite.empty()) {
    std::vector<NamedProblem> problems = suite(arguments.suite);
    for (NamedProblem& one : problems)
      one.problem.n = batch_on(device, arguments.suite, one.problem.n);
    return problems;
  }
  const Bytes text = read_file(arguments.problems, longest_list_bytes);
  return parse_problems({reinterpret_cast<const char*>(text.data()), text.size()});
}

/// An image's planes, rows or columns, no more than `side` unless its filters need them.
std::int64_t cropped(std::int64_t extent, std::int64_t side, std::int64_t taps,
                     std::int64_t dilation, std::int64_t padding) {
  const std::int64_t needed = dilation * (taps - 1) + 1 - padding;
  return std::min(extent, std::max(side, needed));
}

std::vector<NamedProblem> named_problems(const ProblemArguments& arguments,
                                         const DeviceId& device) {
  std::vector<NamedProblem> problems = problems_asked_for(arguments, device);
  for (NamedProblem& one : problems) {
    ConvProblem& problem = one.problem;
    if (arguments.batch > 0) problem.n = arguments.batch;
    if (arguments.side == 0) continue;
    const Padding& padding = problem.padding;
    problem.h = cropped(problem.h, arguments.side, problem.r, problem.dilation.h,
                        padding.top + padding.bottom);
    problem.w = cropped(problem.w, arguments.side, problem.s, problem.dilation.w,
                        padding.left + padding.right);
    if (!problem.has_depth()) continue;
    problem.d = cropped(problem.d, arguments.side, problem.t, problem.dilation.d,
                        padding.front + padding.back);
  }
  return problems;
}

/// Those that are asked for, or the problem's own.
std::vector<Direction> directions_of(const ProblemArguments& arguments,
                                     const ConvProblem& problem) {
  if (arguments.direction == "all")
    return {Direction::forward, Direction::backward_data, Direction::backward_weights};
  if (arguments.direction.empty()) return {problem.direction};
  return {*parse_direction(arguments.direction)};
}

Strides strides_from(const std::vector<std::int64_t>& given, const Strides& otherwise) {
  return given.empty() ? otherwise : Strides(given.data(), given.size());
}

/// With the boundary, the strides, the paddings and the offset that were given beside its text.
ValidationCase with_views(ValidationCase test, const ProblemArguments& arguments) {
  ConvProblem& problem = test.problem;
  const int axes = problem.has_depth() ? 3 : 2;
  if (!arguments.padding.empty()) {
    problem.padding = on_sides("--padding", arguments.padding, axes);
    problem.y_strides = {};
  }
  if (!arguments.boundary.empty()) problem.boundary = boundaries_of(arguments.boundary, axes);
  if (!arguments.padding.empty() || !arguments.boundary.empty())
    test = validation_case(test.name, problem, test.placement);
  const bool strides =
      !arguments.x_strides.empty() || !arguments.w_strides.empty() || !arguments.y_strides.empty();
  if (strides || arguments.offset >= 0) test.placement = Placement::views;
  if (arguments.offset >= 0) test.offset = arguments.offset;
  problem.x_strides = strides_from(arguments.x_strides, problem.x_strides);
  problem.w_strides = strides_from(arguments.w_strides, problem.w_strides);
  problem.y_strides = strides_from(arguments.y_strides, problem.y_strides);
  problem = check(problem);
  return test;
}

}  // namespace

void add_problem_options(CLI::App& command, ProblemArguments& arguments) {
  auto* problem = command.add_option(
      "--problem", arguments.problem,
      "One problem in benchdnn's notation, such as mb8ic3ih32oc8kh3ph1; without mb "
      "the batch is 2 (docs/problem_notation.md)");
  command
      .add_option("--problems", arguments.problems,
                  "Read the problems from this file: one a line, # begins a comment; without mb a "
                  "batch is 2")
      ->excludes(problem);
  command
      .add_option("--dtype", arguments.dtype, "Element type of x, w and y: f32, f64, f16 or bf16")
      ->check(one_of({"f32", "f64", "f16", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--layout", arguments.layout,
                  "Layout of x, w and y: nchw, nhwc, or strided (NCHW with gaps)")
      ->check(one_of({"nchw", "nhwc", "strided"}))
      ->capture_default_str();
  add_integer(command, "--batch", arguments.batch, 1,
              "Replace N, the number of images, of every problem");
  add_integer(
      command, "--side", arguments.side, 1,
      "Crop images to at most this height and width, but never to less than the filter covers; a "
      "depth likewise");
  add_boundary(command, arguments.boundary);
}

void add_direction_option(CLI::App& command, ProblemArguments& arguments) {
  command
      .add_option(
          "--direction", arguments.direction,
          "Which convolution of each problem: forward, backward_data (dx), backward_weights "
          "(dw), or all three; without it the problem's own (dirbwd_d, dirbwd_w)")
      ->check(one_of({"forward", "backward_data", "backward_weights", "all"}));
}

void add_view_options(CLI::App& command, ProblemArguments& arguments) {
  auto* const problem = command.get_option("--problem");
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::min();
  const auto add = [&](const char* name, std::vector<std::int64_t>& values, std::int64_t least,
                       const char* help, int fewest, int most) {
    add_integer(command, name, values, least, help)
        ->delimiter(',')
        ->expected(fewest, most)
        ->needs(problem);
  };
  add("--x-strides", arguments.x_strides, any,
      "Strides of x along N,C,H,W (N,C,D,H,W with a depth) in elements; a negative stride mirrors "
      "x: --x-strides=64,-8,1,0",
      4, 5);
  add("--w-strides", arguments.w_strides, any,
      "Strides of w along K,C/G,R,S (K,C/G,T,R,S) in elements", 4, 5);
  add("--y-strides", arguments.y_strides, any, "Strides of y along N,K,P,Q (N,K,Z,P,Q) in elements",
      4, 5);
  add("--padding", arguments.padding, 0,
      "Padding in place of the problem's own: one value, [depth,]height,width, or top,left,bottom,"
      "right (front,top,left,back,bottom,right)",
      1, 6);
  add_integer(command, "--offset", arguments.offset, 0,
              "On a GPU, let each tensor begin this many elements past a 256-byte boundary")
      ->needs(problem);
}

void add_suite_options(CLI::App& command, ProblemArguments& arguments) {
  const std::vector<std::string> names(std::begin(suite_names), std::end(suite_names));
  auto* suite_option =
      command
          .add_option("--suite", arguments.suite,
                      fmt::format("Run a suite of named layers: {}", fmt::join(names, ", ")))
          ->check(one_of(names));
  for (const char* other : {"--problem", "--problems"})
    suite_option->excludes(command.get_option(other));
}

void add_algorithm_option(CLI::App& command, std::string& pattern, const std::string& help) {
  command.add_option("--algorithm", pattern, help)->capture_default_str();
}

void add_math_option(CLI::App& command, std::string& math, const std::string& help) {
  command.add_option("--math", math, help + ": fp64, fp32, tf32, bf16, fp16")
      ->check(one_of({"fp64", "fp32", "tf32", "bf16", "fp16"}));
}

std::vector<ValidationCase> selected_cases(const ProblemArguments& arguments,
                                           const DeviceId& device) {
  if (!arguments.given()) throw UsageError("--problem, --problems or --suite: one is required");
  std::vector<ValidationCase> cases;
  for (NamedProblem& one : named_problems(arguments, device)) {
    one.problem.dtype = *parse_dtype(arguments.dtype);
    for (const Direction direction : directions_of(arguments, one.problem)) {
      one.problem.direction = direction;
      cases.push_back(with_views(
          validation_case(one.name, one.problem, *parse_placement(arguments.layout)), arguments));
    }
  }
  if (cases.empty())
    throw FileError(fmt::format("{}: holds no problem", shown_path(arguments.problems)));
  return cases;
}

std::vector<const ConvAlgorithm*> selected_algorithms(const Device& device,
                                                      const std::string& pattern) {
  std::vector<const ConvAlgorithm*> selected;
  std::vector<std::string_view> names;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    names.push_back(algorithm->name);
    if (fnmatch(pattern.c_str(), std::string(algorithm->name).c_str(), 0) == 0)
      selected.push_back(algorithm);
  }
  if (selected.empty())
    throw UsageError(fmt::format("--algorithm: nothing of {} matches {}{}", to_string(device.id()),
                                 plumb::quoted(pattern), did_you_mean(pattern, names)));
  return selected;
}

bool admits(const std::string& math, const ConvAlgorithm& algorithm, DType dtype) {
  return math.empty() || allows(*parse_math(math), math_class(algorithm.numerics, dtype));
}

}  // namespace plumb::app
