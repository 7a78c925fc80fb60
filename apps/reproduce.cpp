// Writes a case as the options that make it.
#include "reproduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <vector>

namespace plumb::app {
namespace {

std::string option(std::string_view name, const Strides& strides) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < strides.rank(); ++i) values.push_back(strides[i]);
  // With =, or a minus would begin another option.
  return fmt::format(" --{}={}", name, fmt::join(values, ","));
}

/// Its padding, as many numbers as it has sides.
std::string padding_option(const ConvProblem& problem) {
  const Padding& pad = problem.padding;
  if (!problem.has_depth())
    return fmt::format(" --padding {},{},{},{}", pad.top, pad.left, pad.bottom, pad.right);
  return fmt::format(" --padding {},{},{},{},{},{}", pad.front, pad.top, pad.left, pad.back,
                     pad.bottom, pad.right);
}

/// What the layout's name does not say. Of tensors that lie in a layout of that name nothing.
std::string views(const ValidationCase& test, const ConvProblem& by_name) {
  std::string text;
  const ConvProblem& problem = test.problem;
  if (problem.x_strides != by_name.x_strides) text += option("x-strides", problem.x_strides);
  if (problem.w_strides != by_name.w_strides) text += option("w-strides", problem.w_strides);
  if (problem.y_strides != by_name.y_strides) text += option("y-strides", problem.y_strides);
  if (test.placement == Placement::views) text += fmt::format(" --offset {}", test.offset);
  return text;
}

/// The other libraries whose algorithms the device lists.
std::string providers(const Device& device) {
  std::vector<std::string_view> names;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->provider && (names.empty() || names.back() != algorithm->provider->name))
      names.push_back(algorithm->provider->name);
  return names.empty() ? "" : fmt::format(" --providers {}", fmt::join(names, ","));
}

}  // namespace

std::string reproduce(const Device& device, std::string_view algorithm, const ValidationCase& test,
                      const ValidationOptions& options) {
  const ConvProblem& problem = test.problem;
  const bool own_views = test.placement == Placement::views;
  const Placement layout = own_views ? Placement::nchw : test.placement;
  std::string text =
      fmt::format("plumb validate --device {} --algorithm {} --problem {} --dtype {} --layout {}",
                  to_string(device.id()), algorithm, to_string(problem), to_string(problem.dtype),
                  to_string(layout));
  text += providers(device);
  // Padding that no window reaches is not in the text.
  if (parse_problem(to_string(problem)).problem.padding != problem.padding)
    text += padding_option(problem);
  text += views(test, validation_case("", problem, layout).problem);
  if (test.bias) text += " --bias";
  if (test.activation == Activation::relu) text += " --relu";
  if (test.accumulate) text += " --accumulate";
  if (test.relu_mask) text += " --relu-mask";
  text += fmt::format(" --seed {}", options.seed);
  if (options.guard != GuardPages::both)
    text += fmt::format(" --guard {}", to_string(options.guard));
  if (options.threads > 0) text += fmt::format(" --threads {}", options.threads);
  if (options.tiers.size() < std::size(all_tiers)) {
    std::vector<std::string_view> names;
    for (const Tier tier : options.tiers) names.push_back(to_string(tier));
    text += fmt::format(" --tier {}", fmt::join(names, ","));
  }
  return text;
}

ValidationOptions reported(CrashReport& report, const Device& device, const ValidationCase& test,
                           ValidationOptions options) {
  // All but the name, which is put in before each run, is the same for all algorithms.
  static constexpr std::string_view marker = "*";
  const std::string line = reproduce(device, marker, test, options);
  const std::size_t at = line.find(marker);
  options.before_run = [&report, line, at](const ConvAlgorithm& algorithm, Tier) {
    std::string named = line;
    report.at(named.replace(at, marker.size(), algorithm.name));
  };
  return options;
}

}  // namespace plumb::app
