#include "validated.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/did_you_mean.hpp"
#include "plumb/quote.hpp"
#include "plumb/validate.hpp"

namespace plumb::c {
namespace {

const ConvAlgorithm& algorithm_named(const Device& device, std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (algorithm->name == name) return *algorithm;
    names.push_back(algorithm->name);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} has no algorithm {}{}", to_string(device.id()), quoted(name),
                          did_you_mean(name, names)));
}

}  // namespace

plumb_validation validated(const Device& device, ConvProblem problem, const char* algorithm) {
  problem.x_strides = problem.w_strides = problem.y_strides = {};
  problem = check(problem);
  const ConvAlgorithm* judged =
      algorithm ? &algorithm_named(device, algorithm) : &ConvPlan(device, problem).algorithm();
  plumb_validation seen{.passed = 1};
  // In a caller's process a fault is a verdict, and must not end it.
  const ValidationOptions options{.guard = GuardPages::none};
  for (const ValidationRecord& record :
       validate(device, {&judged, 1}, validation_case("", problem, Placement::nchw), options)) {
    if (record.verdict == Verdict::unsupported)
      throw Error(ErrorCode::unsupported, fmt::format("{}: {}", record.algorithm, record.sentence));
    seen.max_error_over_bound = std::max(seen.max_error_over_bound, record.max_error_over_bound);
    if (record.verdict == Verdict::pass || !seen.passed) continue;
    seen.passed = 0;
    const std::string sentence = fmt::format("{} {}: {}", to_string(record.tier),
                                             to_string(record.verdict), record.sentence);
    sentence.copy(seen.sentence, sizeof seen.sentence - 1);
  }
  return seen;
}

}  // namespace plumb::c
