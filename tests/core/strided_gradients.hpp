// What the tests of strided gradients share: backward data made of a copy of an algorithm, and the
// tiers that notice what the copy gets wrong.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "cpu_kernels/damaged_copy.hpp"
#include "plumb/plumb.hpp"

namespace plumb_test {

inline plumb::ConvProblem data_problem(const char* text, plumb::DType dtype = plumb::DType::f32) {
  plumb::ConvProblem problem = plumb::parse_problem(text).problem;
  problem.direction = plumb::Direction::backward_data;
  problem.dtype = dtype;
  return check(problem);
}

/// The tiers in which backward data made of `copy` fails at one of the problems, of which every
/// second one has a bias.
template <class Texts>
std::set<plumb::Tier> tiers_that_fail(const plumb::ConvAlgorithm& copy, plumb::Placement placement,
                                      const Texts& texts, plumb::DType dtype = plumb::DType::f32) {
  using namespace plumb;
  std::set<Tier> failed;
  const ConvAlgorithm* const list[] = {&copy};
  bool bias = false;
  for (const char* text : texts) {
    CAPTURE(text);
    ValidationCase test = validation_case("", data_problem(text, dtype), placement);
    test.bias = bias = !bias;
    for (const ValidationRecord& record : validate(Device::open("cpu"), list, test, {.seed = 5})) {
      REQUIRE(record.verdict != Verdict::unsupported);
      if (record.verdict == Verdict::fail) failed.insert(record.tier);
    }
  }
  return failed;
}

}  // namespace plumb_test
