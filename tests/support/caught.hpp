// Whether validation finds the mistake in a copy of an algorithm.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"

namespace plumb_test {

/// Whether a tier of the list fails on a problem of the list.
inline bool is_caught(const plumb::Device& device, const plumb::ConvAlgorithm& algorithm,
                      const std::vector<std::string>& problems, plumb::DType dtype,
                      plumb::Placement placement, const std::vector<plumb::Tier>& tiers,
                      plumb::Direction direction = plumb::Direction::forward) {
  const plumb::ConvAlgorithm* const copy = &algorithm;
  int runs = 0;
  bool caught = false;
  for (const std::string& text : problems) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.dtype = dtype, problem.direction = direction;
    const plumb::ValidationCase test = plumb::validation_case("", problem, placement);
    for (const plumb::ValidationRecord& record :
         plumb::validate(device, {&copy, 1}, test, {.seed = 7, .tiers = tiers})) {
      runs += record.verdict != plumb::Verdict::unsupported;
      caught = caught || record.verdict == plumb::Verdict::fail;
    }
  }
  CHECK(runs > 0);
  return caught;
}

}  // namespace plumb_test
