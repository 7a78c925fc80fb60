// Which problems and algorithms a command is about, and the options that say so.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

struct ProblemArguments {
  std::string problem, problems;  ///< one, or a file of them; both empty where none are given
  std::string suite;
  std::int64_t batch = 0;  ///< of every problem; 0: its own, of a suite as fits the device
  std::int64_t side = 0;   ///< that images are cropped to; 0: they are not
  std::string dtype = "f32", layout = "nchw";
  std::string direction;              ///< of every problem, or "all"; empty: its own
  std::vector<std::string> boundary;  ///< of every problem; empty: its own
  /// Of a given problem; empty: those of the layout, or of its text.
  std::vector<std::int64_t> x_strides, w_strides, y_strides, padding;
  std::int64_t offset = -1;  ///< elements past a 256-byte boundary; below 0: as the layout has it
  bool given() const { return !problem.empty() || !problems.empty() || !suite.empty(); }
};

/// --problem, --problems, --boundary, --batch, --side, --dtype, --layout.
void add_problem_options(CLI::App& command, ProblemArguments& arguments);
/// --suite, besides those; one of --problem, --problems and --suite is then required.
void add_suite_options(CLI::App& command, ProblemArguments& arguments);
/// --direction: "all" makes three problems of each.
void add_direction_option(CLI::App& command, ProblemArguments& arguments);
/// --x-strides, --w-strides, --y-strides, --padding, --offset: the views and paddings that a
/// problem's text does not have. After add_problem_options().
void add_view_options(CLI::App& command, ProblemArguments& arguments);
/// --algorithm, a pattern that starts as what it holds.
void add_algorithm_option(CLI::App& command, std::string& pattern, const std::string& help);
/// --math; empty stays empty.
void add_math_option(CLI::App& command, std::string& math, const std::string& help);

/// The problems, with their stored type, strides and names. FileError, or Error
/// (invalid_argument) where a text makes no sense.
std::vector<ValidationCase> selected_cases(const ProblemArguments& arguments,
                                           const DeviceId& device);

/// The device's algorithms whose names match, with * and ?. UsageError where none does.
std::vector<const ConvAlgorithm*> selected_algorithms(const Device& device,
                                                      const std::string& pattern);

/// Whether its arithmetic may serve `math`; an empty one allows everything.
bool admits(const std::string& math, const ConvAlgorithm& algorithm, DType dtype);

}  // namespace plumb::app
