// Times that a neighbour disturbed: by a clock of the test's own.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "measure_case.hpp"

using namespace plumb;
using namespace plumb_test::measuring;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A clock by which every run takes what `script` says, given the algorithm and how many of its
/// runs were timed before.
template <class Script>
MeasureOptions by_script(const Script& script) {
  MeasureOptions options{.min_samples = 20,
                         .max_samples = 20,
                         .warm_up_seconds = 0,
                         .cold_bytes = 0,
                         .check = false,
                         .estimate_limit = std::numeric_limits<double>::infinity()};
  const auto counts = std::make_shared<std::map<std::string, int>>();
  options.clock = [counts, script](std::string_view algorithm, double) {
    return script(algorithm, (*counts)[std::string(algorithm)]++);
  };
  return options;
}

}  // namespace

TEST_CASE("samples that scatter are taken again, and unsteady where they still do", "[timed]") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb2ic3ih9oc4kh3"));
  REQUIRE(plans.size() > 2);
  const std::string_view noisy = plans[0].algorithm().name, calmed = plans[1].algorithm().name;
  const auto options = by_script([&](std::string_view algorithm, int run) {
    // A neighbour that comes and goes, and one that goes after the first samples.
    const bool disturbed = algorithm == noisy || (algorithm == calmed && run < 23);
    return disturbed && run % 4 != 0 ? 1e-3 : 1e-5;
  });
  for (const Measurement& one : measure(plans, options).contestants) {
    CAPTURE(one.algorithm, one.unsteady);
    REQUIRE(one.samples == 20);
    REQUIRE(one.min_seconds == 1e-5);
    REQUIRE(one.tries == (one.algorithm == noisy ? 3 : one.algorithm == calmed ? 2 : 1));
    REQUIRE(one.unsteady.empty() == (one.algorithm != noisy));
    REQUIRE(one.median_seconds == (one.algorithm == noisy ? 1e-3 : 1e-5));
  }
  REQUIRE_THAT(measure(plans, options).contestants[0].unsteady,
               ContainsSubstring("scatter") && ContainsSubstring("100 times the minimum"));
}

TEST_CASE("scatter is unsteady above its limit, and not at it", "[timed]") {
  const Device cpu = Device::open("cpu");
  const ConvPlan plan(cpu, problem_of("mb2ic3ih9oc4kh3"));
  const auto unsteady_with = [&](double median, double limit) {
    MeasureOptions options =
        by_script([=](std::string_view, int run) { return run % 4 == 0 ? 1.0 : median; });
    options.scatter_limit = limit;
    options.tries = 1;
    return !measure({&plan, 1}, options).contestants[0].unsteady.empty();
  };
  REQUIRE_FALSE(unsteady_with(1.5, 0.5));
  REQUIRE(unsteady_with(1.5000001, 0.5));
  REQUIRE(unsteady_with(1.5, 0.25));
  REQUIRE_FALSE(unsteady_with(1e6, 1e9));
  REQUIRE(MeasureOptions{}.scatter_limit == 0.5);
}

TEST_CASE("times far above the estimate are unsteady, however well they agree", "[timed]") {
  const Device cpu = Device::open("cpu");
  const ConvPlan plan(cpu, problem_of("mb4ic16ih40oc16kh3ph1"));
  const double estimate = ask(plan.algorithm(), plan.problem(), cpu.info()).estimate_seconds + 5e-6;
  const auto seen = [&](double seconds, double limit) {
    MeasureOptions options = by_script([=](std::string_view, int) { return seconds; });
    options.estimate_limit = limit;
    return measure({&plan, 1}, options).contestants[0];
  };
  const double limit = MeasureOptions{}.estimate_limit;
  REQUIRE(limit == 10);
  REQUIRE(seen(9.9 * estimate, limit).unsteady.empty());
  const Measurement slow = seen(10.1 * estimate, limit);
  REQUIRE_THAT(slow.unsteady, ContainsSubstring("times the estimate of"));
  REQUIRE(slow.tries == 3);
  REQUIRE(seen(10.1 * estimate, std::numeric_limits<double>::infinity()).unsteady.empty());
}

TEST_CASE("what was given up for a disturbance is taken up again", "[timed]") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb2ic3ih9oc4kh3"));
  const std::string_view disturbed = plans[0].algorithm().name;
  MeasureOptions options = by_script([&](std::string_view algorithm, int run) {
    return algorithm == disturbed && run < 4 ? 1.0 : 1e-6;
  });
  options.give_up_factor = 4;
  options.estimate_limit = 10;
  const Measurement seen = measure(plans, options).contestants[0];
  REQUIRE(seen.algorithm == disturbed);
  REQUIRE(seen.unsteady.empty());
  // The run before the samples and three samples took a second each. The next three do not, and
  // then there are as many as of the others.
  REQUIRE(seen.tries == 3);
  REQUIRE_FALSE(seen.given_up);
  REQUIRE(seen.samples == 20);
  REQUIRE(seen.median_seconds == 1e-6);
}
