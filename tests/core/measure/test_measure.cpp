// Timing: what is asked of every measurement, whatever the times are.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string_view>
#include <vector>

#include "measure_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test::measuring;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("every algorithm is timed, and its timed output held against the oracle", "[timed]") {
  for (const Device& device : plumb_test::all_devices())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      ConvProblem problem = problem_of(dtype == DType::f32 ? "mb9ic2ih8iw13oc3kh3sh2ph1_poolmax2x2"
                                                           : "mb9ic2ih8iw11oc3kh3sh2ph1");
      problem.dtype = dtype;
      const auto plans = all_plans(
          device, problem, {.math = Math::fp16, .bias = true, .activation = Activation::relu});
      REQUIRE(plans.size() > 0);
      const Measurements seen = measure(plans, few_short());
      REQUIRE(seen.contestants.size() == plans.size());
      REQUIRE(seen.buffer_sets > 1);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const Measurement& one = seen.contestants[i];
        CAPTURE(one.algorithm, to_string(dtype));
        REQUIRE(one.algorithm == plans[i].algorithm().name);
        REQUIRE(one.failure.empty());
        REQUIRE(one.samples >= 3);
        REQUIRE(one.min_seconds > 0);
        REQUIRE(one.median_seconds >= one.min_seconds);
        REQUIRE(one.max_error_over_bound <= 1);
        // Random data in a type that rounds: no error at all would mean that nothing was compared.
        if (dtype != DType::f64) REQUIRE(one.max_error_over_bound > 0);
      }
    }
}

TEST_CASE("runs of less than 200 us go round sets of buffers, longer ones stay on one", "[timed]") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb1ic16ih5oc24kh3"));
  const auto sets = [&](double seconds, std::size_t cold_bytes) {
    MeasureOptions options = few;
    options.cold_bytes = cold_bytes;
    options.clock = [=](std::string_view, double) { return seconds; };
    return measure(plans, options).buffer_sets;
  };
  REQUIRE(sets(199e-6, few.cold_bytes) > 1);
  REQUIRE(sets(201e-6, few.cold_bytes) == 1);
  REQUIRE(sets(199e-6, 0) == 1);
}

TEST_CASE("the packing of filters is counted, or done before, and said so", "[timed]") {
  const Device cpu = Device::open("cpu");
  ConvProblem problem = problem_of("mb1ic16ih5oc24kh3");
  const auto plans = all_plans(cpu, problem);
  for (const bool before : {false, true}) {
    MeasureOptions options = few_short();
    options.packed_filters = before;
    const Measurements seen = measure(plans, options);
    REQUIRE(seen.buffer_sets > 1);  // each with filters of its own
    int packed = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Measurement& one = seen.contestants[i];
      CAPTURE(one.algorithm, before);
      REQUIRE(one.failure.empty());
      REQUIRE(one.max_error_over_bound <= 1);
      REQUIRE(one.max_error_over_bound > 0);
      const PackingTime packs = before ? PackingTime::before : PackingTime::counted;
      REQUIRE(one.packing == (plans[i].packs_filters() ? packs : PackingTime::none));
      packed += plans[i].packs_filters();
    }
    REQUIRE(packed > 0);
  }
}

TEST_CASE("the host's time has what a run has and what it waits for", "[timed]") {
  for (const Device& device : plumb_test::all_devices()) {
    const auto plans = all_plans(device, problem_of("mb1ic16ih9oc24kh3"));
    MeasureOptions options = few;
    options.give_up_factor = 0;
    std::vector<double> least;
    for (const bool of_host : {false, true}) {
      options.host_time = of_host;
      const Measurements seen = measure(plans, options);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const Measurement& one = seen.contestants[i];
        CAPTURE(one.algorithm, of_host);
        REQUIRE(one.failure.empty());
        REQUIRE(one.samples >= options.min_samples);
        REQUIRE(one.max_error_over_bound <= 1);
        if (!of_host) least.push_back(one.min_seconds);
        // What it waits for is there in full, but for what the clock of events leaves out.
        if (of_host) REQUIRE(one.median_seconds > least[i] / 2);
      }
    }
  }
}

TEST_CASE("samples are as many as asked for, and few of what is hopeless", "[timed]") {
  const Device cpu = Device::open("cpu");
  const ConvProblem problem = problem_of("mb2ic16ih40oc16kh3ph1");
  const auto plans = all_plans(cpu, problem, {});
  REQUIRE(plans.size() > 1);
  MeasureOptions options{.min_samples = 20, .max_samples = 20, .check = false};
  for (const Measurement& one : measure(plans, options).contestants) {
    REQUIRE(one.samples == 20);
    REQUIRE_FALSE(one.given_up);
    REQUIRE(one.max_error_over_bound == 0);
  }
  // Below 1 even the best is slower than it may be.
  options.give_up_factor = 0.5;
  for (const Measurement& one : measure(plans, options).contestants) {
    REQUIRE(one.given_up);
    REQUIRE(one.samples == 3);
  }
}

TEST_CASE("tensors with gaps and layouts of other orders are measured too", "[timed]") {
  for (const Device& device : plumb_test::all_devices())
    for (const Placement placement : {Placement::nhwc, Placement::strided}) {
      const ConvProblem problem =
          validation_case("", problem_of("g2mb7ic4ih9iw10oc6kh3ph1"), placement).problem;
      for (const Measurement& one : measure(all_plans(device, problem), few).contestants) {
        CAPTURE(one.algorithm);
        REQUIRE(one.max_error_over_bound > 0);
        REQUIRE(one.max_error_over_bound <= 1);
      }
    }
}

TEST_CASE("plans that accumulate are measured, and checked against what y held", "[timed]") {
  for (const Device& device : plumb_test::all_devices())
    for (const char* text : {"g2mb7ic4ih9iw10oc6kh3ph1", "mb3ic2id5ih6oc3kd3kh3pd1ph1"}) {
      const auto plans = all_plans(device, problem_of(text), {.bias = true, .accumulate = true});
      REQUIRE(plans.size() > 0);
      for (const Measurement& one : measure(plans, few).contestants) {
        CAPTURE(one.algorithm, text);
        REQUIRE(one.failure.empty());
        REQUIRE(one.max_error_over_bound > 0);
        REQUIRE(one.max_error_over_bound <= 1);
      }
    }
}

TEST_CASE("contestants that do not belong together are refused", "[timed]") {
  const Device cpu = Device::open("cpu");
  const auto refused = [&](const std::vector<ConvPlan>& plans, const char* words,
                           const MeasureOptions& options = few) {
    REQUIRE_THROWS_MATCHES(measure(plans, options), Error,
                           MessageMatches(ContainsSubstring(words)));
  };
  const ConvPlan one(cpu, problem_of("mb2ic3ih9oc4kh3"));
  refused({one, ConvPlan(cpu, problem_of("mb2ic3ih9oc5kh3"))}, "one problem");
  refused({one, ConvPlan(cpu, one.problem(), {.activation = Activation::relu})}, "activation");
  refused({ConvPlan(cpu, problem_of("mb0ic3ih9oc4kh3"))}, "batch of 0");
  refused({one}, "samples", {.min_samples = 0});
  refused({one}, "5 to 4 samples; expected", {.min_samples = 5, .max_samples = 4});
  refused({one, ConvPlan(cpu, one.problem(), {.bias = true})},
          "a bias and an accumulation of all or none");
  refused({one, ConvPlan(cpu, one.problem(), {.accumulate = true})}, "of all or none");
  refused({one}, "0 tries; expected 1 or more", {.tries = 0});
  ConvProblem reversed = one.problem();
  reversed.x_strides[0] = -reversed.x_strides[0];
  refused({ConvPlan(cpu, reversed)}, "below 0");
  REQUIRE(measure({}, few).contestants.empty());
}
